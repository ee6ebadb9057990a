//! Tables for people: a name, a value, and a remark.

use std::fmt::Display;

/// Rows of text, printed in aligned columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    /// Adds a row; `remark` may be empty.
    pub(crate) fn row(
        &mut self,
        name: &str,
        value: impl Display,
        remark: impl Display,
    ) -> &mut Table {
        let cells = [name.to_string(), value.to_string(), remark.to_string()];
        self.rows.push(cells);
        self
    }

    /// Returns the table as lines of text.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let (names, values) = (width(0), width(1));
        let mut text = String::new();
        for [name, value, remark] in &self.rows {
            let line = format!("{name:names$}  {value:values$}  {remark}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let mut table = Table::default();
        table
            .row("naïve", "1", "one")
            .row("b", "200", "")
            .row("", "", "more");
        assert_eq!(
            table.text(),
            "naïve  1    one\nb      200\n            more\n"
        );
    }
}
