"""CRADLE's measures (Pham et al., ICSE 2019) on NumPy arrays and on the static graph; nothing here runs a model.

Detect: distances of outputs by instance, patterns of inconsistency, unique inconsistencies. Localise: the rate at which
each node changes the distance that comes in. Besides, what going through many inputs needs: the inputs, and statistics.
"""

from metaop.debug.cradle.distances import class_distance, mad_distance, one_hot, top_class
from metaop.debug.cradle.feeds import Feeds, SizedFeeds, open_feeds
from metaop.debug.cradle.inconsistencies import (
    Inconsistency,
    Metric,
    class_metric,
    detect,
    mad_metric,
    unique_inconsistencies,
)
from metaop.debug.cradle.localization import (
    Execution,
    deviations,
    highlighted,
    localization_map,
    rates_of_change,
    third_quartile,
)
from metaop.debug.cradle.statistics import Statistics, Summary, Worst

__all__ = [
    "Execution",
    "Feeds",
    "Inconsistency",
    "Metric",
    "SizedFeeds",
    "Statistics",
    "Summary",
    "Worst",
    "class_distance",
    "class_metric",
    "detect",
    "deviations",
    "highlighted",
    "localization_map",
    "mad_distance",
    "mad_metric",
    "one_hot",
    "open_feeds",
    "rates_of_change",
    "third_quartile",
    "top_class",
    "unique_inconsistencies",
]
