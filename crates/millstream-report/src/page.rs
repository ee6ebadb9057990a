//! A page: one file of HTML that needs nothing else, on a phone as on a desk.
//!
//! It loads nothing, and its policy forbids to: no network, no images, and no script but the one
//! whose hash it names, so that even markup that got past the escaping could not run. Wide tables
//! scroll inside their own box; pictures scale.

use std::fmt::Write as _;

use crate::markup::escape;
use crate::svg::Svg;
use crate::theme;

/// A piece of HTML that was put together by this crate.
#[derive(Debug, Clone, Default)]
pub struct Html(String);

/// How a cell of a table is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// A name or a few words.
    Name,
    /// A number, to the right.
    Number,
    /// A sentence.
    Words,
}

/// A cell: a text and the class of its colour, if it has one.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    class: &'static str,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell {
            text: text.into(),
            class: "",
        }
    }
}

impl Cell {
    /// A cell in the colour of a class.
    pub fn of(text: impl Into<String>, class: &'static str) -> Cell {
        Cell {
            text: text.into(),
            class,
        }
    }
}

/// A table under construction.
#[derive(Debug, Clone)]
pub struct Table {
    caption: String,
    columns: Vec<(String, Set)>,
    body: String,
    rows: usize,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(caption: &str, columns: &[(&str, Set)]) -> Table {
        Table {
            caption: caption.to_owned(),
            columns: columns
                .iter()
                .map(|(name, set)| ((*name).to_owned(), *set))
                .collect(),
            body: String::new(),
            rows: 0,
        }
    }

    /// Adds a row of a class (`ours`, `limit` or none); missing cells are empty.
    pub fn row(&mut self, class: &str, cells: Vec<Cell>) {
        self.rows += 1;
        let _ = write!(self.body, "<tr class=\"{class}\">");
        for (index, (_, set)) in self.columns.iter().enumerate() {
            let kind = match set {
                Set::Name => "name",
                Set::Number => "n",
                Set::Words => "words",
            };
            let (text, colour) = cells
                .get(index)
                .map_or(("", ""), |cell| (&*cell.text, cell.class));
            let _ = write!(
                self.body,
                "<td class=\"{kind} {colour}\">{}</td>",
                escape(text)
            );
        }
        self.body.push_str("</tr>");
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl Html {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Html {
        Html::default()
    }

    /// Markup of this crate's own, taken as it is.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// A heading with a place for links.
    pub fn section(&mut self, id: &str, heading: &str) {
        let _ = write!(self.0, "<h2 id=\"{}\">{}</h2>", escape(id), escape(heading));
    }

    /// A smaller heading.
    pub fn heading(&mut self, heading: &str) {
        let _ = write!(self.0, "<h3>{}</h3>", escape(heading));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = write!(self.0, "<p>{}</p>", escape(text));
    }

    /// A paragraph of a class of the style sheet.
    pub fn paragraph_of(&mut self, class: &str, text: &str) {
        let _ = write!(self.0, "<p class=\"{class}\">{}</p>", escape(text));
    }

    /// A list.
    pub fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        self.0.push_str("<ul>");
        for item in items {
            let _ = write!(self.0, "<li>{}</li>", escape(item.as_ref()));
        }
        self.0.push_str("</ul>");
    }

    /// Terms and what they are.
    pub fn terms(&mut self, terms: &[(String, String)]) {
        self.0.push_str("<dl>");
        for (term, what) in terms {
            let _ = write!(self.0, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(what));
        }
        self.0.push_str("</dl>");
    }

    /// A table in a box of its own that scrolls where the page is narrower.
    pub fn table(&mut self, table: &Table) {
        let caption = escape(&table.caption);
        let _ = write!(
            self.0,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\
             <table><caption>{caption}</caption><thead><tr>"
        );
        for (name, set) in &table.columns {
            let kind = if *set == Set::Number { "n" } else { "" };
            let _ = write!(
                self.0,
                "<th scope=\"col\" class=\"{kind}\">{}</th>",
                escape(name)
            );
        }
        let _ = write!(
            self.0,
            "</tr></thead><tbody>{}</tbody></table></div>",
            table.body
        );
    }

    /// A picture with a caption.
    pub fn figure(&mut self, picture: &Svg, caption: &str) {
        let _ = write!(self.0, "<figure>{}", picture.inline());
        if !caption.is_empty() {
            let _ = write!(self.0, "<figcaption>{}</figcaption>", escape(caption));
        }
        self.0.push_str("</figure>");
    }

    /// A picture over the whole width, as far as it stays legible.
    pub fn wide_figure(&mut self, picture: &Svg, caption: &str) {
        self.0.push_str("<div class=\"wide\">");
        self.figure(picture, caption);
        self.0.push_str("</div>");
    }

    /// Pictures side by side where there is room.
    pub fn cards(&mut self, inside: &Html) {
        if !inside.0.is_empty() {
            let _ = write!(self.0, "<div class=\"cards\">{}</div>", inside.0);
        }
    }

    /// A part that opens on demand; `remark` stands beside its heading, in the colour of a class.
    pub fn details(&mut self, open: bool, heading: &str, remark: &Cell, inside: &Html) {
        let open = if open { " open" } else { "" };
        let _ = write!(
            self.0,
            "<details{open}><summary>{} <small class=\"{}\">{}</small></summary>{}</details>",
            escape(heading),
            remark.class,
            escape(&remark.text),
            inside.0,
        );
    }

    /// Appends another piece.
    pub fn append(&mut self, other: &Html) {
        self.0.push_str(&other.0);
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A script of the page: this crate's own text, and the SHA-256 of it in base64.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: &'static str,
}

/// The whole page. `sections` are links to its headings: an id and a word.
#[must_use]
pub(crate) fn render(
    title: &str,
    body: &Html,
    sections: &[(String, String)],
    more_style: &str,
    script: Option<Script>,
) -> String {
    let script_policy = match script {
        Some(script) => format!("'sha256-{}'", script.hash),
        None => "'none'".into(),
    };
    let mut links = String::new();
    for (id, word) in sections {
        let _ = write!(links, "<a href=\"#{}\">{}</a>", escape(id), escape(word));
    }
    let nav = match links.is_empty() {
        true => String::new(),
        false => format!("<nav aria-label=\"Sections\">{links}</nav>"),
    };
    let script = script.map_or(String::new(), |it| format!("<script>{}</script>", it.text));
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src {script_policy}\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{}{}{}{more_style}</style></head>\n\
         <body><h1>{title}</h1>{nav}<main>{}</main>{script}</body></html>\n",
        theme::COLOURS,
        theme::PICTURE,
        theme::PAGE,
        body.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let evil = "<script>alert(1)</script>\"'";
        let mut inside = Html::new();
        inside.section(evil, evil);
        inside.heading(evil);
        inside.paragraph(evil);
        inside.list([evil]);
        inside.terms(&[(evil.into(), evil.into())]);
        let mut table = Table::new(evil, &[(evil, Set::Name)]);
        table.row("", vec![evil.into()]);
        inside.table(&table);
        inside.figure(&Svg::new(1.0, 1.0, evil), evil);
        let mut body = Html::new();
        body.details(true, evil, &evil.into(), &inside);
        let page = render(evil, &body, &[(evil.into(), evil.into())], "", None);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("script-src 'none'"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
