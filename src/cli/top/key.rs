//! What the keys do.
//!
//! In comes a key; out goes what is wanted, and the state is changed.
//! A question hears only yes and no, a filter that is typed takes every letter; everything else is told by `?`.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    ask::{Act, Ask},
    draw,
    pick::Filter,
    state::{News, Over, State, View, Want},
};
use crate::{cli::exit::Exit, rpc::proto::GetJobResponse};

/// The longest filter.
const FILTER: usize = 300;

/// The keys and what they do, as `?` tells them.
pub const KEYS: [(&str, &str); 16] = [
    ("↑ ↓ j k", "one up or down"),
    ("PgUp PgDn", "a screen up or down"),
    ("Home End g G", "to the first or the last"),
    ("Enter o", "open the job: steps, output, what is asked, errors"),
    ("w", "the events of the job as they come"),
    ("Esc", "back; in the list: no filter"),
    ("a", "approve what it asks"),
    ("x", "reject it, which ends the job"),
    ("p", "pause it"),
    ("r", "resume it"),
    ("c", "cancel it"),
    ("t", "retry it, once it has failed or was cancelled"),
    ("/", "filter: STATUS, KEY=VALUE, the beginning of an id"),
    ("s", "sort in another order"),
    ("?", "these keys"),
    ("q", "quit"),
];

#[expect(clippy::wildcard_enum_match_arm, reason = "there are many keys, and few do something")]
impl State {
    /// Takes in a key; answers what is wanted.
    pub fn press(&mut self, at: Duration, key: KeyEvent) -> Vec<Want> {
        self.now = at;
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let wanted = if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => vec![Want::Leave(Exit::Interrupted)],
                KeyCode::Char('l') => vec![Want::Redraw],
                _ => Vec::new(),
            }
        } else {
            match std::mem::take(&mut self.over) {
                Over::Asking(ask) => self.answer(key.code, ask),
                Over::Typing(text) => self.type_filter(key.code, text),
                // Whatever is pressed, the keys have been seen.
                Over::Help => Vec::new(),
                Over::Nothing => self.command(key.code),
            }
        };
        self.settle();
        wanted
    }

    fn answer(&mut self, key: KeyCode, ask: Ask) -> Vec<Want> {
        match key {
            KeyCode::Char('y' | 'Y') => return vec![Want::Act(ask)],
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {}
            _ => self.over = Over::Asking(ask),
        }
        Vec::new()
    }

    fn type_filter(&mut self, key: KeyCode, mut text: String) -> Vec<Want> {
        match key {
            KeyCode::Esc => return Vec::new(),
            KeyCode::Enter => return self.filter_by(&text),
            KeyCode::Backspace if text.is_empty() => return Vec::new(),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.len() < FILTER => text.push(c),
            _ => {}
        }
        self.over = Over::Typing(text);
        Vec::new()
    }

    fn filter_by(&mut self, text: &str) -> Vec<Want> {
        match Filter::parse(text) {
            Ok(filter) if filter == self.filter => Vec::new(),
            Ok(filter) => {
                self.filter = filter;
                self.has_looked = false;
                self.jobs.retain(|job| self.filter.admits(job));
                vec![Want::Look]
            }
            Err(why) => {
                self.news = Some(News::Bad(why));
                self.over = Over::Typing(text.to_owned());
                Vec::new()
            }
        }
    }

    fn command(&mut self, key: KeyCode) -> Vec<Want> {
        self.news = None;
        self.deciding = None;
        match key {
            KeyCode::Char('q') => return vec![Want::Leave(Exit::Ok)],
            KeyCode::Char('?') => self.over = Over::Help,
            KeyCode::Esc | KeyCode::Backspace => return self.back(),
            KeyCode::Char('/') if self.view == View::List => {
                self.over = Over::Typing(self.filter.text.clone());
            }
            KeyCode::Char('s') if self.view == View::List => {
                self.sort = self.sort.next();
                self.sort.sort(&mut self.jobs);
            }
            KeyCode::Enter | KeyCode::Char('o') if self.view != View::Job => return self.open_it(),
            KeyCode::Char('w') if self.view != View::Events => return self.watch_it(),
            KeyCode::Char(c) => match Act::of_key(c) {
                Some(act) => return self.ask(act),
                None => self.go(key),
            },
            _ => self.go(key),
        }
        Vec::new()
    }

    /// Out of what is open; in the list, away from the filter.
    fn back(&mut self) -> Vec<Want> {
        match self.view {
            View::List => self.filter_by(""),
            View::Job | View::Events => {
                let was_watched = self.watched.take().is_some();
                self.view = View::List;
                self.open_id = None;
                let unwatch = was_watched.then_some(Want::Unwatch);
                unwatch.into_iter().chain([Want::Look]).collect()
            }
        }
    }

    fn open_it(&mut self) -> Vec<Want> {
        let Some(id) = self.current().map(|job| job.job_id.clone()) else { return Vec::new() };
        let was_watched = self.watched.take().is_some();
        self.view = View::Job;
        self.scroll = 0;
        self.open_id = Some(id.clone());
        let unwatch = was_watched.then_some(Want::Unwatch);
        unwatch.into_iter().chain([Want::Open(id), Want::Look]).collect()
    }

    fn watch_it(&mut self) -> Vec<Want> {
        let Some(job) = self.current().cloned() else { return Vec::new() };
        let id = job.job_id.clone();
        self.view = View::Events;
        self.back = 0;
        self.events.clear();
        if self.opened(&id).is_none() {
            self.opened = Some(GetJobResponse { job: Some(job), spec: None });
        }
        self.open_id = Some(id.clone());
        self.watched = Some(id.clone());
        vec![Want::Watch(id), Want::Look]
    }

    /// Asks before anything is done; what a decision is about is fetched first to be shown.
    fn ask(&mut self, act: Act) -> Vec<Want> {
        let Some(job) = self.current() else { return Vec::new() };
        let job_id = job.job_id.clone();
        match Ask::about(act, job) {
            Ok(ask) if act.decides() => {
                self.deciding = Some(ask);
                self.news = Some(News::Good(format!("looking at what {job_id} asks …")));
                vec![Want::Open(job_id)]
            }
            Ok(ask) => {
                self.over = Over::Asking(ask);
                Vec::new()
            }
            Err(why) => {
                self.news = Some(News::Bad(why));
                Vec::new()
            }
        }
    }

    /// Moves the selection, or scrolls.
    fn go(&mut self, key: KeyCode) {
        let page = match self.view {
            View::List => draw::rows(self),
            View::Job | View::Events => draw::page(self),
        };
        let page = page.saturating_sub(1).max(1);
        let (up, by) = match key {
            KeyCode::Up | KeyCode::Char('k') => (true, 1),
            KeyCode::Down | KeyCode::Char('j') => (false, 1),
            KeyCode::PageUp => (true, page),
            KeyCode::PageDown => (false, page),
            KeyCode::Home | KeyCode::Char('g') => (true, usize::MAX / 2),
            KeyCode::End | KeyCode::Char('G') => (false, usize::MAX / 2),
            _ => return,
        };
        let moved = |from: usize, up| {
            if up { from.saturating_sub(by) } else { from.saturating_add(by) }
        };
        match self.view {
            View::List => self.select(moved(self.selected.1, up)),
            View::Job => self.scroll = moved(self.scroll, up),
            View::Events => self.back = moved(self.back, !up),
        }
    }
}
