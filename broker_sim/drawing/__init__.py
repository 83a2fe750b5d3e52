"""Tools for pictures and the pages around them: SVG elements, a time axis, the colours, templates.

* ``canvas``: SVG elements as text; ``sheet``: a canvas with time from left to right, as ``scale`` lays it out
* ``colours``: the classes that elements are drawn in, for light and dark
* ``pages``: HTML from templates in which whatever comes from outside is escaped

What is drawn - lanes of members, charts of a report - is its owner's: ``broker_sim.explain.picture``, ``broker_sim.pipeline.report``.
"""
