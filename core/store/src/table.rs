//! What a table holds: its columns with their meaning, once, for whoever writes, migrates or describes it.

use std::borrow::Cow;
use std::fmt::Write;

/// A table of a run.
#[derive(Debug)]
pub struct Table {
    /// Its name, in the file's metadata.
    pub name: &'static str,
    /// Its file, below the run.
    pub file: &'static str,
    /// What a row is, and the order of rows, in sentences.
    pub rows: &'static str,
    /// Its columns, in their order.
    pub columns: &'static [Column],
    /// Columns of the instants between which what a row is about passed; the unit is at their ends.
    pub span: Option<[&'static str; 2]>,
}

/// How the values of a column are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 64 bits, signed, successive values near each other.
    I64,
    /// 64 bits, unsigned, successive values near each other.
    U64,
    /// 64 bits, unsigned, few distinct values.
    FewU64,
    /// 32 bits, unsigned, successive values near each other.
    U32,
    /// Unsigned of so many bits, few distinct values.
    Few(i8),
    /// Text, few distinct values.
    Text,
    /// 64 bits, floating point.
    F64,
}

/// Names of what two columns hold; of one, both are the same.
#[derive(Clone, Copy, Debug)]
pub struct NamesOf {
    /// The columns.
    pub columns: [&'static str; 2],
    /// The name; none of numbers that have none.
    pub name: NameOf,
}

/// The name of two numbers.
pub type NameOf = fn(u32, u32) -> Option<String>;

/// Names of the flags that are set, joined by `+`; none where no flag with a name is.
pub fn flag_names(raw: u32, flags: &[(u32, &str)]) -> Option<String> {
    let set: Vec<&str> = flags.iter().filter(|(flag, _)| raw & flag != 0).map(|(_, name)| *name).collect();
    (!set.is_empty()).then(|| set.join("+"))
}

/// One column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name, with the unit at its end.
    pub name: Cow<'static, str>,
    /// How values are laid out.
    pub layout: Layout,
    /// Whether values may be missing.
    pub optional: bool,
    /// What it means, without a full stop. Empty where only the file knows the column.
    pub meaning: &'static str,
    /// What it names.
    pub names: Option<NamesOf>,
}

impl Column {
    /// A column whose values are never missing.
    pub const fn required(name: &'static str, layout: Layout, meaning: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), layout, optional: false, meaning, names: None }
    }

    /// A column whose values may be missing.
    pub const fn optional(name: &'static str, layout: Layout, meaning: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), layout, optional: true, meaning, names: None }
    }

    /// The names of the numbers in two other columns, which are the same where one number has a name by itself.
    pub const fn names(
        name: &'static str,
        columns: [&'static str; 2],
        of: NameOf,
        meaning: &'static str,
    ) -> Self {
        let names = Some(NamesOf { columns, name: of });
        Self { name: Cow::Borrowed(name), layout: Layout::Text, optional: true, meaning, names }
    }

    /// A column as a plan or a file has it.
    pub const fn made(name: String, layout: Layout, optional: bool) -> Self {
        Self { name: Cow::Owned(name), layout, optional, meaning: "", names: None }
    }

    fn kind(&self) -> String {
        let kind = match self.layout {
            Layout::I64 => "signed 64".to_owned(),
            Layout::U64 | Layout::FewU64 => "unsigned 64".to_owned(),
            Layout::U32 => "unsigned 32".to_owned(),
            Layout::Few(bits) => format!("unsigned {bits}"),
            Layout::Text => "text".to_owned(),
            Layout::F64 => "double".to_owned(),
        };
        if self.optional { format!("{kind}, nullable") } else { kind }
    }

    /// The unit that its name ends in.
    fn unit(&self) -> &'static str {
        let units = ["ns", "fs", "bytes", "cycles"];
        self.name.rsplit('_').next().and_then(|end| units.into_iter().find(|unit| *unit == end)).unwrap_or("")
    }
}

impl Table {
    /// Its section of `docs/tables.md`.
    pub fn markdown(&self) -> String {
        let rows = self.rows.replace(". ", ".\n");
        let mut out = format!("## {}\n\n`{}`\n\n{rows}\n\n", self.name, self.file);
        out.push_str("| column | type | unit | meaning |\n|---|---|---|---|\n");
        for column in self.columns {
            let unit = column.unit();
            let space = if unit.is_empty() { "" } else { " " };
            let _ = writeln!(
                out,
                "| `{}` | {} |{space}{unit} | {} |",
                column.name,
                column.kind(),
                column.meaning
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_say_what_each_column_is() {
        static MOMENTS: Table = Table {
            name: "moments",
            file: "moments.parquet",
            rows: "A row per moment.",
            columns: &[
                Column::required("at_ns", Layout::I64, "when"),
                Column::optional("kind", Layout::Few(8), "number of its kind"),
                Column::names("kind_name", ["kind", "kind"], |_, _| None, "its name"),
            ],
            span: None,
        };
        let expected = "## moments\n\n`moments.parquet`\n\nA row per moment.\n\n\
            | column | type | unit | meaning |\n|---|---|---|---|\n\
            | `at_ns` | signed 64 | ns | when |\n\
            | `kind` | unsigned 8, nullable | | number of its kind |\n\
            | `kind_name` | text, nullable | | its name |\n";
        assert_eq!(MOMENTS.markdown(), expected);
    }
}
