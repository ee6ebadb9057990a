//! The pictures, one kind a file. All are as wide as a phone can show legibly and grow with their
//! room; all have a title, units at their axes, and a label for those who cannot see them.

use crate::svg::{Anchor, BOLD, SMALL, Svg, fit, text_width};

pub mod bar;
pub mod curve;
pub mod heat;
pub mod range;
pub mod ratio;
pub mod share;

/// Width of a picture, in its own units: on a phone of 360 pixels a unit is three quarters of one.
pub const WIDTH: f64 = 440.0;
/// Room left and right.
pub(crate) const MARGIN: f64 = 4.0;
/// Where the title stands, and where what is below it begins.
pub(crate) const TITLE_LINE: f64 = 16.0;
/// Top of what is drawn below the title.
pub(crate) const TOP: f64 = 28.0;

/// Whose figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// Millstream's.
    Ours,
    /// Someone else's.
    Rival,
    /// The least that physics and the kernel demand.
    Limit,
}

impl Whose {
    /// Ours, a rival's or the limit's, by the contender's name.
    #[must_use]
    pub fn of(contender: &str) -> Whose {
        match contender {
            "limit" => Whose::Limit,
            "millstream" => Whose::Ours,
            _ if contender.starts_with("millstream-") => Whose::Ours,
            _ => Whose::Rival,
        }
    }

    /// How wide its name is beside the same in plain text: ours is bold.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Whose::Ours => BOLD,
            Whose::Rival | Whose::Limit => 1.0,
        }
    }

    /// The end of the names of its classes.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Whose::Ours => "ours",
            Whose::Rival => "rival",
            Whose::Limit => "limit",
        }
    }
}

/// The title, cut to the picture's width.
pub(crate) fn title(svg: &mut Svg, text: &str) {
    let room = svg.width() - 2.0 * MARGIN;
    svg.text(
        MARGIN,
        TITLE_LINE,
        "title",
        Anchor::Start,
        &fit(text, room, 13.5),
    );
}

/// Ticks of a horizontal axis at `y`, without labels that would touch.
pub(crate) fn ticks_below(svg: &mut Svg, places: &[(f64, String)], y: f64) {
    let mut free_from = f64::NEG_INFINITY;
    for (x, label) in places {
        let half = text_width(label, SMALL) / 2.0;
        let middle = x.clamp(MARGIN + half, svg.width() - MARGIN - half);
        if middle - half < free_from {
            continue;
        }
        svg.text(middle, y, "tick", Anchor::Middle, label);
        free_from = middle + half + 6.0;
    }
}
