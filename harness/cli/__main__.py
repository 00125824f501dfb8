"""`python -m harness.cli`: the same as `kvreplay`."""

from harness.cli.main import main

main()
