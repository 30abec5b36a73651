//! Tables that fit the terminal: columns give way in an order before anything is cut off.
//!
//! In come a header, rows and how wide the terminal is; out go lines of at most so many cells.
//! A pipe has no width, so what is read by a program is whole.

use super::render::{Paint, clip, pad, pad_left, width};

/// What may become of a column where there is not enough room.
#[derive(Clone, Copy, Debug)]
pub enum Give {
    /// It is cut to so many cells at the least.
    Shrink(&'static str, usize),
    /// It is left out.
    Drop(&'static str),
}

/// Rows under a header; a title `>x` puts its column to the right.
pub struct Columns {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table of these rows, each as long as the header.
    pub fn new(header: Vec<&'static str>, rows: Vec<Vec<String>>) -> Self {
        Self { header, rows }
    }

    /// Lines of so many cells at the most, the header dim; what is made of a cell may have colour, not other cells.
    pub fn lines(
        mut self,
        wide: usize,
        gives: &[Give],
        dress: impl Fn(&str, &str) -> String,
        paint: Paint,
    ) -> Vec<String> {
        let mut widths = self.widths();
        for give in gives {
            let excess = total(&widths).saturating_sub(wide);
            if excess == 0 {
                break;
            }
            let (Give::Shrink(name, _) | Give::Drop(name)) = *give;
            let Some(at) =
                self.header.iter().position(|title| title.trim_start_matches('>') == name)
            else {
                continue;
            };
            match *give {
                Give::Shrink(_, least) => {
                    let least = least.max(width(name));
                    widths[at] = widths[at].min(widths[at].saturating_sub(excess).max(least));
                }
                Give::Drop(_) => {
                    widths.remove(at);
                    self.header.remove(at);
                    for row in &mut self.rows {
                        row.remove(at);
                    }
                }
            }
        }
        self.regrow(&mut widths, gives, wide);
        let fits = total(&widths) <= wide;
        let line = |cells: &[String], dress: &dyn Fn(&str, &str) -> String| {
            let cells =
                cells.iter().zip(&self.header).zip(&widths).map(|((cell, title), cells)| {
                    let cell = clip(cell, *cells);
                    let (is_right, title) = (title.starts_with('>'), title.trim_start_matches('>'));
                    let dressed = dress(title, &cell);
                    // Colour takes no room, so the room is that of the bare text.
                    let bare = if is_right { pad_left(&cell, *cells) } else { pad(&cell, *cells) };
                    if cell.is_empty() { bare } else { bare.replacen(&cell, &dressed, 1) }
                });
            let line = cells.collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        };
        let plain = |_: &str, cell: &str| cell.to_owned();
        let titles: Vec<String> =
            self.header.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
        let body = self.rows.iter().map(|row| {
            // What is cut off may not leave a colour open.
            if fits { line(row, &dress) } else { clip(&line(row, &plain), wide) }
        });
        std::iter::once(paint.dim(&clip(&line(&titles, &plain), wide))).chain(body).collect()
    }

    /// Gives back what is left once a column is gone, first to the one that was cut last.
    fn regrow(&self, widths: &mut [usize], gives: &[Give], wide: usize) {
        let natural = self.widths();
        for give in gives.iter().rev() {
            let Give::Shrink(name, _) = *give else { continue };
            let at = self.header.iter().position(|title| title.trim_start_matches('>') == name);
            if let Some(at) = at {
                let left = wide.saturating_sub(total(widths));
                widths[at] = natural[at].min(widths[at] + left);
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.header.iter().map(|title| width(title.trim_start_matches('>'))).collect();
        for row in &self.rows {
            for (cell, widest) in row.iter().zip(&mut widths) {
                *widest = (*widest).max(width(cell));
            }
        }
        widths
    }
}

/// With two spaces between them.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(wide: usize) -> Vec<String> {
        let row = |id: &str, count: &str, text: &str| {
            vec![id.to_owned(), count.to_owned(), text.to_owned()]
        };
        let rows = vec![row("a", "1", "为一款记账App写推广文案"), row("abcdef", "23", "x")];
        let gives = [Give::Shrink("TEXT", 6), Give::Drop("N")];
        Columns::new(vec!["ID", ">N", "TEXT"], rows).lines(
            wide,
            &gives,
            |_, cell| cell.to_owned(),
            Paint::plain(),
        )
    }

    #[test]
    fn columns_give_way_in_their_order() {
        assert_eq!(
            lines(80),
            ["ID       N  TEXT", "a        1  为一款记账App写推广文案", "abcdef  23  x"]
        );
        assert_eq!(lines(20)[1], "a        1  为一款…");
        assert_eq!(lines(18)[1], "a        1  为一…");
        assert_eq!(lines(17)[1], "a       为一款记…", "what is left goes to the text");
        assert_eq!(lines(14), ["ID      TEXT", "a       为一…", "abcdef  x"]);
        assert_eq!(lines(10), ["ID      T…", "a       …", "abcdef  x"]);
        for wide in 0..80 {
            assert!(lines(wide).iter().all(|line| width(line) <= wide), "{wide}");
        }
    }
}
