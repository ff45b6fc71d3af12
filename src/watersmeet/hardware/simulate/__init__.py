"""Streams of payloads through a component, cycle by cycle. The same stimulus gives the same trace in every simulator."""

from watersmeet.hardware.simulate.session import Session, observed, simulate
from watersmeet.hardware.simulate.trace import Trace

__all__ = ["Session", "Trace", "observed", "simulate"]
