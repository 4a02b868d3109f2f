"""Finds the packages: the folders at the top install under one import package, ``warp_audit``."""

from setuptools import find_packages, setup

TOP = ("audit", "compiler", "debugger", "reports", "tui")

folders = {"warp_audit": "warp_audit"} | {f"warp_audit.{name}": name for name in TOP}
packages = ["warp_audit", *(f"warp_audit.{name}" for name in find_packages("warp_audit"))]
for name in TOP:
    packages += [f"warp_audit.{name}", *(f"warp_audit.{name}.{inner}" for inner in find_packages(name))]

setup(
    packages=packages,
    package_dir=folders,
    package_data={"": ["py.typed", "*.txt", "*.tcss", "*.json"]},
)
