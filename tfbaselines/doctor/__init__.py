"""The doctor: reads a run and names what most likely keeps it from learning (docs/doctor.md)."""
