"""Replays: one storage of transitions, and several ways of choosing rows of it."""
