//! Drawings of characters: rows of bars for distributions and categories, dots for series.

use super::Style;
use crate::chart::Plot;

/// The drawing; empty where this kind has none.
pub(super) fn draw(_plot: &Plot, _style: Style) -> String {
    String::new()
}
