//! A page: a single HTML file that needs nothing else, for phones and desktops.
//!
//! It loads nothing, and its content security policy forbids loading: no network, no images, and no
//! script but the one whose hash it names, so that even markup that got past the escaping could not
//! run. Wide tables scroll inside their own box; pictures scale.

use std::fmt::Write as _;

use crate::markup::escape;
use crate::svg::{self, Svg};

/// The style sheet of pages, apart from their pictures.
const STYLE: &str = include_str!("page.css");

#[derive(Debug, Clone, Default)]
pub(crate) struct Html {
    markup: String,
    links: String,
}

/// A table, for a page or as text.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    caption: String,
    /// The names of the columns, and whether they hold numbers, which are right-aligned.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table. Column names are separated by bars; that of a column of numbers
    /// begins with `>`: `case | >time | remark`.
    pub(crate) fn new(caption: &str, columns: &str) -> Table {
        let mut table = Table {
            caption: caption.to_owned(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        columns
            .split('|')
            .for_each(|name| table.column(name.trim()));
        table
    }

    /// Adds a column; must precede all rows.
    pub(crate) fn column(&mut self, name: &str) {
        let number = name.strip_prefix('>');
        let column = (number.unwrap_or(name).to_owned(), number.is_some());
        self.columns.push(column);
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Returns the caption, and the table in Markdown with aligned columns.
    pub(crate) fn text(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().chain([&names]);
            cells.map(|cells| cells[at].chars().count()).max()
        };
        let widths: Vec<usize> = (0..names.len()).filter_map(width).collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).zip(&self.columns);
            let cells = cells.map(|((cell, width), (_, is_number))| match is_number {
                true => format!("| {cell:>width$} "),
                false => format!("| {cell:width$} "),
            });
            cells.collect::<String>() + "|\n"
        };
        let rules = widths.iter().map(|width| "-".repeat(width + 2));
        let rules = format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        let caption = match &*self.caption {
            "" => String::new(),
            caption => format!("{caption}\n"),
        };
        caption + &line(&names) + &rules + &self.rows.iter().map(line).collect::<String>()
    }
}

impl Html {
    pub(crate) fn raw(&mut self, markup: &str) {
        self.markup.push_str(markup);
    }

    /// Adds a heading, and a link to it at the top of the page.
    pub(crate) fn section(&mut self, id: &str, heading: &str) {
        let _ = write!(self.markup, "<h2 id=\"{id}\">{heading}</h2>");
        let _ = write!(self.links, "<a href=\"#{id}\">{heading}</a>");
    }

    /// Adds a paragraph with a class of the style sheet, or an empty one.
    pub(crate) fn paragraph(&mut self, class: &str, text: &str) {
        let _ = write!(self.markup, "<p class=\"{class}\">{}</p>", escape(text));
    }

    pub(crate) fn preformatted(&mut self, text: &str) {
        let text = escape(text);
        let _ = write!(
            self.markup,
            "<pre class=\"scroll\" tabindex=\"0\">{text}</pre>"
        );
    }

    pub(crate) fn terms(&mut self, terms: &[(String, String)]) {
        let terms = terms
            .iter()
            .map(|(term, what)| format!("<dt>{}</dt><dd>{}</dd>", escape(term), escape(what)));
        let _ = write!(self.markup, "<dl>{}</dl>", terms.collect::<String>());
    }

    /// Adds a table in a box of its own that scrolls if the page is narrower.
    pub(crate) fn table(&mut self, table: &Table) {
        let caption = escape(&table.caption);
        let _ = write!(
            self.markup,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\
             <table><caption>{caption}</caption><thead><tr>"
        );
        let class = |is_number: &bool| if *is_number { " class=\"n\"" } else { "" };
        for (name, is_number) in &table.columns {
            let (class, name) = (class(is_number), escape(name));
            let _ = write!(self.markup, "<th scope=\"col\"{class}>{name}</th>");
        }
        self.raw("</tr></thead><tbody>");
        for cells in &table.rows {
            let cells = table
                .columns
                .iter()
                .zip(cells)
                .map(|((_, is_number), text)| {
                    format!("<td{}>{}</td>", class(is_number), escape(text))
                });
            let _ = write!(self.markup, "<tr>{}</tr>", cells.collect::<String>());
        }
        self.raw("</tbody></table></div>");
    }

    /// Adds pictures, side by side if there is room.
    pub(crate) fn pictures(&mut self, pictures: impl IntoIterator<Item = Svg>) {
        self.raw("<div class=\"cards\">");
        for picture in pictures {
            let _ = write!(self.markup, "<figure>{}</figure>", picture.inline());
        }
        self.raw("</div>");
    }
}

/// A script of the page: this crate's own text, and its SHA-256 in base64.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: &'static str,
}

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
