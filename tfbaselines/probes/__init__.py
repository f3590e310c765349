"""Probes of a run: its environment, its policy, its learner and its configuration are built and examined.

docs/doctor.md describes them for users; examination.py has their order.
"""
