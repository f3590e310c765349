"""Runs of this package inside of other libraries' tools; each needs the library's extra."""
