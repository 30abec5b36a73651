//! A message in the making: its paragraphs, and how much room is left.

use std::borrow::Cow;

use super::excerpt::{cut, lines, quote, units};

const OUTPUT_UNITS_MAX: usize = 700;
/// Less of an output than this says nothing.
const OUTPUT_UNITS_MIN: usize = 60;

/// A message in the making; its end is written first, so that nothing takes its room.
pub(super) struct Page {
    paragraphs: Vec<String>,
    end: String,
    room: usize,
}

const BETWEEN: &str = "\n\n";

impl Page {
    /// A message of at most so many UTF-16 units.
    pub(super) fn new(end: String, units_max: usize) -> Self {
        Self { paragraphs: Vec::new(), room: units_max.saturating_sub(units(&end)), end }
    }

    /// Adds a paragraph, or what fits of it.
    pub(super) fn add(&mut self, paragraph: &str) {
        let room = self.room.saturating_sub(BETWEEN.len());
        let fits = cut(paragraph, room);
        if !fits.is_empty() {
            self.room = room - units(&fits);
            self.paragraphs.push(fits.into_owned());
        }
    }

    /// Adds an output, quoted, with a label that tells whether it is whole.
    pub(super) fn add_output(&mut self, output: Option<&str>, label: &str, label_if_cut: &str) {
        let output = quote(&lines(output.unwrap_or_default()));
        let room = self.room.saturating_sub(BETWEEN.len() + units(label_if_cut) + 1);
        if output.is_empty() || room < OUTPUT_UNITS_MIN {
            return;
        }
        let shown = cut(&output, OUTPUT_UNITS_MAX.min(room));
        let label = match shown {
            Cow::Borrowed(_) => label,
            Cow::Owned(_) => label_if_cut,
        };
        self.add(&format!("{label}\n{shown}"));
    }

    /// The message.
    pub(super) fn finish(mut self) -> String {
        if !self.end.is_empty() {
            self.paragraphs.push(self.end);
        }
        self.paragraphs.join(BETWEEN)
    }
}
