//! A page: one file of HTML that needs nothing else, on a phone as on a desk.
//!
//! It loads nothing, and its policy forbids to: no network, no images, and no script but the one
//! whose hash it names, so that even markup that got past the escaping could not run. Wide tables
//! scroll inside their own box; pictures scale.

use std::fmt::Write as _;

use crate::markup::escape;
use crate::svg::{self, Svg};

/// The style of pages around their pictures.
const STYLE: &str = include_str!("page.css");

/// A piece of HTML that was put together by this crate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Html {
    markup: String,
    /// Links to its sections.
    links: String,
}

/// How the cells of a column are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// A name or a few words.
    Name,
    /// A number, to the right.
    Number,
    /// A sentence.
    Words,
}

/// A cell: a text and the class of its color, if it has one.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    class: &'static str,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::of(text, "")
    }
}

impl Cell {
    /// A cell in the color of a class.
    pub(crate) fn of(text: impl Into<String>, class: &'static str) -> Cell {
        Cell {
            text: text.into(),
            class,
        }
    }
}

/// A table, for a page or as text.
#[derive(Debug, Clone)]
pub struct Table {
    caption: String,
    columns: Vec<(String, Set)>,
    /// Each with its class.
    rows: Vec<(&'static str, Vec<Cell>)>,
}

impl Table {
    /// An empty table. The names of its columns stand between bars; that of a column of numbers
    /// begins with `>`, that of one of sentences with `~`: `case | >time | ~remark`.
    pub fn new(caption: impl Into<String>, columns: &str) -> Table {
        let mut table = Table {
            caption: caption.into(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        for name in columns.split('|').map(str::trim) {
            match name.split_at_checked(1) {
                Some((">", name)) => table.column(name, Set::Number),
                Some(("~", name)) => table.column(name, Set::Words),
                _ => table.column(name, Set::Name),
            }
        }
        table
    }

    /// Adds a column, ahead of all rows.
    pub(crate) fn column(&mut self, name: &str, set: Set) {
        self.columns.push((name.to_owned(), set));
    }

    /// Adds a row of a class (`ours`, `limit` or none); missing cells are empty.
    pub fn row(&mut self, class: &'static str, cells: Vec<Cell>) {
        self.rows.push((class, cells));
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in Markdown, its columns aligned.
    #[must_use]
    pub fn text(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| &**name).collect();
        let cells = self.rows.iter().map(|(_, cells)| {
            let texts = cells.iter().map(|cell| &*cell.text);
            let texts = texts.chain(std::iter::repeat(""));
            texts.take(self.columns.len()).collect()
        });
        let lines: Vec<Vec<&str>> = std::iter::once(names).chain(cells).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).filter_map(width).collect();
        let mut text = String::new();
        for (nth, line) in lines.iter().enumerate() {
            for ((cell, width), (_, set)) in line.iter().zip(&widths).zip(&self.columns) {
                text += &match set {
                    Set::Number => format!("| {cell:>width$} "),
                    Set::Name | Set::Words => format!("| {cell:width$} "),
                };
            }
            text += "|\n";
            if nth == 0 {
                let rules = widths.iter().map(|width| "-".repeat(width + 2));
                text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
            }
        }
        text
    }
}

impl Set {
    fn class(self) -> &'static str {
        match self {
            Set::Name => "name",
            Set::Number => "n",
            Set::Words => "words",
        }
    }
}

impl Html {
    /// Adds markup made by this crate, as it is.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.markup.push_str(markup);
    }

    /// Adds a heading, and a link to it at the head of the page.
    pub(crate) fn section(&mut self, id: &str, heading: &str) {
        let (id, heading) = (escape(id), escape(heading));
        let _ = write!(self.markup, "<h2 id=\"{id}\">{heading}</h2>");
        let _ = write!(self.links, "<a href=\"#{id}\">{heading}</a>");
    }

    /// Adds a smaller heading.
    pub(crate) fn heading(&mut self, heading: &str) {
        let _ = write!(self.markup, "<h3>{}</h3>", escape(heading));
    }

    /// Adds a paragraph of a class of the style sheet, or of none.
    pub(crate) fn paragraph(&mut self, class: &str, text: &str) {
        let _ = write!(self.markup, "<p class=\"{class}\">{}</p>", escape(text));
    }

    /// Adds a list.
    pub(crate) fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        let items = items
            .into_iter()
            .map(|item| format!("<li>{}</li>", escape(item.as_ref())));
        let _ = write!(self.markup, "<ul>{}</ul>", items.collect::<String>());
    }

    /// Adds terms and what they are.
    pub(crate) fn terms(&mut self, terms: &[(String, String)]) {
        self.raw("<dl>");
        for (term, what) in terms {
            let _ = write!(
                self.markup,
                "<dt>{}</dt><dd>{}</dd>",
                escape(term),
                escape(what)
            );
        }
        self.raw("</dl>");
    }

    /// Adds a table in a box of its own that scrolls where the page is narrower.
    pub(crate) fn table(&mut self, table: &Table) {
        let caption = escape(&table.caption);
        let _ = write!(
            self.markup,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\
             <table><caption>{caption}</caption><thead><tr>"
        );
        for (name, set) in &table.columns {
            let (kind, name) = (set.class(), escape(name));
            let _ = write!(
                self.markup,
                "<th scope=\"col\" class=\"{kind}\">{name}</th>"
            );
        }
        self.raw("</tr></thead><tbody>");
        for (class, cells) in &table.rows {
            let _ = write!(self.markup, "<tr class=\"{class}\">");
            let empty = Cell::default();
            let cells = cells.iter().chain(std::iter::repeat(&empty));
            for ((_, set), Cell { text, class }) in table.columns.iter().zip(cells) {
                let (kind, text) = (set.class(), escape(text));
                let _ = write!(self.markup, "<td class=\"{kind} {class}\">{text}</td>");
            }
            self.raw("</tr>");
        }
        self.raw("</tbody></table></div>");
    }

    /// Adds a picture with a caption.
    pub(crate) fn figure(&mut self, picture: &Svg, caption: &str) {
        let (picture, caption) = (picture.inline(), escape(caption));
        let caption = format!("<figcaption>{caption}</figcaption>");
        let _ = write!(self.markup, "<figure>{picture}{caption}</figure>");
    }

    /// Adds pictures side by side where there is room.
    pub(crate) fn cards(&mut self, pictures: &[Svg]) {
        if !pictures.is_empty() {
            self.raw("<div class=\"cards\">");
            for picture in pictures {
                self.figure(picture, "");
            }
            self.raw("</div>");
        }
    }

    /// Adds a part that opens on demand; `remark` stands beside its heading.
    pub(crate) fn details(&mut self, open: bool, heading: &str, remark: &Cell, inside: &Html) {
        let open = if open { " open" } else { "" };
        let _ = write!(
            self.markup,
            "<details{open}><summary>{} <small class=\"{}\">{}</small></summary>{}</details>",
            escape(heading),
            remark.class,
            escape(&remark.text),
            inside.markup,
        );
    }

    /// Adds a closed part with a table in it.
    pub(crate) fn folded(&mut self, heading: &str, table: &Table) {
        let mut inside = Html::default();
        inside.table(table);
        self.details(false, heading, &Cell::default(), &inside);
    }
}

/// A script of the page: this crate's own text, and the SHA-256 of it in base64.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: &'static str,
}

/// The whole page.
pub(crate) fn render(title: &str, body: &Html, more_style: &str, script: Option<Script>) -> String {
    let policy = match script {
        Some(script) => format!("'sha256-{}'", script.hash),
        None => "'none'".into(),
    };
    let script = script.map_or(String::new(), |it| format!("<script>{}</script>", it.text));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src {policy}\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{}{STYLE}{more_style}</style></head>\n\
         <body><h1>{title}</h1><nav aria-label=\"Sections\">{}</nav><main>{}</main>{script}\
         </body></html>\n",
        svg::STYLE,
        body.links,
        body.markup,
    )
}
