"""What pyproject.toml can't say: the time of a wheel's files. Without it they have the times of the clone, and no two wheels are equal."""

import os

from setuptools import setup

os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # 1980, where the times of a zip file begin
setup()
