//! Tables of Markdown.

/// A table: names of its columns, and its rows.
#[derive(Debug, PartialEq)]
pub(super) struct Table {
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The tables of a text, in order.
pub(super) fn tables(text: &str) -> Vec<Table> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let ruled =
            |line: &&str| line.starts_with('|') && line.trim_matches(|c| "|-: ".contains(c)).is_empty();
        if line.starts_with('|') && lines.next_if(ruled).is_some() {
            let mut rows = Vec::new();
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            found.push(Table { heads: cells(line), rows });
        }
    }
    found
}

/// A cell without the stars of bold words.
pub(super) fn plain(cell: &str) -> &str {
    cell.trim().trim_matches('*')
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = vec![String::new()];
    let mut before = ' ';
    for letter in inner.chars() {
        match cells.last_mut() {
            Some(cell) if letter != '|' || before == '\\' => cell.push(letter),
            _ => cells.push(String::new()),
        }
        before = letter;
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

impl Table {
    /// Place of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.heads.iter().position(|head| head == name)
    }

    /// The table as Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---".to_owned(); self.heads.len()];
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.heads) + &line(&rule) + &rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_written() {
        let text = "a\n\n| x | y |\n|---|--:|\n| 1 | a\\|b |\n| 2 |  |\n\n| no table |\n";
        let found = tables(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].column("y"), Some(1));
        assert_eq!(found[0].rows, [["1", "a\\|b"], ["2", ""]]);
        assert_eq!(found[0].markdown(), "| x | y |\n| --- | --- |\n| 1 | a\\|b |\n| 2 |  |\n");
    }
}
