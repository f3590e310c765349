"""A small HTTP server for a saved run: ``python -m tfbaselines.serve RUN``."""
