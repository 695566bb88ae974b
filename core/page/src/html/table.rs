//! A table of a report's page.

use super::page::micro;
use serde::Serialize;

/// Heads and cells, as they are read.
#[derive(Serialize)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A table with words above it.
#[derive(Serialize)]
pub struct Titled {
    pub title: String,
    pub table: Table,
}

impl Table {
    /// Heads and cells with "us" as the page writes it.
    pub fn new(columns: &[&str], rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>) -> Self {
        Self {
            columns: columns.iter().map(|name| micro((*name).to_owned())).collect(),
            rows: rows.into_iter().map(|row| row.into_iter().map(micro).collect()).collect(),
        }
    }
}
