"""warp-audit: finds faulty Warp kernels and launches before they run, and explains those that failed."""

__version__ = "0.1.0"
