"""The composition root: reads a config, runs what it says, leaves a run folder.

Import from its modules: the command line starts fast only because reports, with pandas and plotly, load when needed.
"""
