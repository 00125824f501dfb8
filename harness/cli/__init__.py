"""The command line: one file a verb; the only room, with report/, that prints."""
