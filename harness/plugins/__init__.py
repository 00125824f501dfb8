"""Code that LMCache loads into its own process: a Valkey client that spreads keys over several instances."""
