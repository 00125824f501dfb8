"""The incident picture in ten lines: python docs/incident_picture.py results/laptop/<run> picture.html."""

import sys

import plotly.express as px

import harness

run = harness.load_run(sys.argv[1])
replay = run.requests.query("`pass` == 'replay' and outcome == 'ok'").fillna({"lookup": "not told"})
told = ["seq", "row", "cached_tokens", "load_ms"]
figure = px.scatter(replay, x="due_s", y="ttft_ms", color="lookup", facet_col="arm", log_y=True, hover_data=told)
figure.write_html(sys.argv[2])
