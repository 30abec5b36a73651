//! What the view knows and shows, as one value: what comes in changes it, and what comes out is wanted of others.
//!
//! In come keys, ticks and what the server said; out go the calls that are wanted, and whether to leave.
//! Nothing here waits, looks at a clock or draws: `settle` brings selection and scrolling in order after each change.

use std::{collections::VecDeque, time::Duration};

use chrono::{DateTime, Utc};

use super::{
    ask::Ask,
    draw,
    pick::{Filter, Sort},
    rate::Rates,
};
use crate::{
    cli::exit::Exit,
    rpc::proto::{Event, GetJobResponse, Job, JobStatus, StatusCount, UsageRow},
};

/// The most events of a watch that are kept.
const EVENTS: usize = 1000;

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// A second or so has passed.
    Tick,
    /// The terminal has another size: columns and rows.
    Resized(u16, u16),
    /// A look at the jobs.
    Seen(Box<Seen>),
    /// A look that came to nothing, and why.
    Away(String),
    /// What was spent.
    Spent(Box<Spent>),
    /// A job that was opened.
    Opened(Box<GetJobResponse>),
    /// What was wanted has been done, or had been; with the job after it.
    Done(Ask, Box<Job>, bool),
    /// What was wanted was refused, and why.
    Refused(String),
    /// An event of a job that is or was watched.
    Happened(String, Box<Event>),
    /// Its watch has ended, or broken off, and why.
    Unwatched(String, String),
}

/// What one look at the server brings.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The jobs that the filter picks, as many as one page holds.
    pub jobs: Vec<Job>,
    /// There are more of them.
    pub has_more: bool,
    /// How many jobs there are in all, by status.
    pub counts: Vec<StatusCount>,
    /// Those that await an approval, as many as a page holds.
    pub pending: Vec<Job>,
    /// The job that is open.
    pub opened: Option<GetJobResponse>,
}

/// What was spent, and when that was asked.
#[derive(Clone, Debug)]
pub struct Spent {
    /// Since the day began, in UTC.
    pub today: UsageRow,
    /// In all.
    pub all: UsageRow,
    /// The server's time.
    pub at: DateTime<Utc>,
}

/// What is wanted of others.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// To leave.
    Leave(Exit),
    /// Other jobs, or another that is open.
    Look,
    /// This job, now.
    Open(String),
    /// The events of this job.
    Watch(String),
    /// No more events.
    Unwatch,
    /// To do what was answered with yes.
    Act(Ask),
    /// To draw everything anew.
    Redraw,
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The table of jobs.
    #[default]
    List,
    /// One job.
    Job,
    /// The events of one job as they come.
    Events,
}

/// What stands over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Nothing.
    #[default]
    Nothing,
    /// The keys.
    Help,
    /// A question.
    Asking(Ask),
    /// A filter that is being typed.
    Typing(String),
}

/// How a line of news is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Something went well.
    Good(String),
    /// Something did not.
    Bad(String),
}

/// Everything.
#[derive(Debug, Default)]
pub struct State {
    /// Where the jobs are.
    pub server: String,
    /// Columns and rows.
    pub size: (u16, u16),
    /// How long the view has been there.
    pub now: Duration,
    /// What the server's clock showed, and when.
    pub clock: Option<(DateTime<Utc>, Duration)>,
    /// What fills the screen.
    pub view: View,
    /// What stands over it.
    pub over: Over,
    /// A decision that is to be asked about, once the job that asks for it has come.
    pub deciding: Option<Ask>,
    /// Which jobs.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// The jobs that are shown, in that order.
    pub jobs: Vec<Job>,
    /// There are more of them.
    pub has_more: bool,
    /// A look has come back since the filter was set.
    pub has_looked: bool,
    /// How many jobs there are by status.
    pub counts: Vec<StatusCount>,
    /// Those that await an approval, who has waited longest first.
    pub pending: Vec<Job>,
    /// What was seen to happen.
    pub rates: Rates,
    /// What was spent.
    pub spent: Option<Spent>,
    /// Since when the server is away, and why.
    pub away: Option<(Duration, String)>,
    /// What is to be said.
    pub news: Option<News>,
    /// The job that is selected, and its place.
    pub selected: (String, usize),
    /// The first job on the screen.
    pub offset: usize,
    /// The job that is open, or that a question is about.
    pub opened: Option<GetJobResponse>,
    /// Which job is to be open.
    pub open_id: Option<String>,
    /// How far an open job is scrolled.
    pub scroll: usize,
    /// The events of the job that is watched.
    pub events: VecDeque<Event>,
    /// The job that is watched.
    pub watched: Option<String>,
    /// How far back from the newest event.
    pub back: usize,
}

impl State {
    /// Takes in what came; answers what is wanted.
    pub fn take(&mut self, at: Duration, input: Input) -> Vec<Want> {
        self.now = at;
        match input {
            Input::Tick => {}
            Input::Resized(wide, high) => self.size = (wide, high),
            Input::Seen(seen) => self.see(*seen),
            Input::Away(why) => {
                let since = self.away.take().map_or(at, |(since, _)| since);
                self.away = Some((since, why));
            }
            Input::Spent(spent) => {
                self.clock = Some((spent.at, at));
                self.spent = Some(*spent);
            }
            Input::Opened(opened) => {
                self.open(*opened);
                self.ask_to_decide();
            }
            Input::Done(ask, job, changed) => {
                let (does, done) = ask.act.in_words();
                self.news = Some(News::Good(if changed {
                    format!("{done} {}", ask.job_id)
                } else {
                    format!("nothing to {does}: {} had come to that", ask.job_id)
                }));
                self.replace(*job);
            }
            Input::Refused(why) => self.news = Some(News::Bad(why)),
            Input::Happened(job_id, event) => self.happen(&job_id, *event),
            Input::Unwatched(job_id, why) => {
                if self.watched.as_ref() == Some(&job_id) {
                    self.news = Some(News::Bad(why));
                }
            }
        }
        self.settle();
        Vec::new()
    }

    /// The time where the jobs are.
    pub fn time(&self) -> Option<DateTime<Utc>> {
        let (at, seen) = self.clock?;
        Some(at + self.now.saturating_sub(seen))
    }

    /// The job that keys are for: the open one, or the one that is selected.
    pub fn current(&self) -> Option<&Job> {
        if self.view == View::List {
            return self.jobs.get(self.selected.1);
        }
        let id = self.open_id.as_ref()?;
        let opened = self.opened.as_ref().and_then(|opened| opened.job.as_ref());
        opened
            .filter(|job| job.job_id == *id)
            .or_else(|| self.jobs.iter().find(|job| job.job_id == *id))
    }

    /// The open job with all there is to know of it, once it has come.
    pub fn opened(&self, job_id: &str) -> Option<(&GetJobResponse, &Job)> {
        let opened = self.opened.as_ref()?;
        let job = opened.job.as_ref().filter(|job| job.job_id == job_id)?;
        Some((opened, job))
    }

    fn see(&mut self, seen: Seen) {
        self.away = None;
        self.has_looked = true;
        self.has_more = seen.has_more;
        self.rates.look(self.now, &seen.counts, &seen.jobs);
        self.counts = seen.counts;
        self.pending = seen.pending;
        self.jobs = seen.jobs;
        // Who waits is told whatever the filter picks; what it picks of them is in the list too.
        let is_new = |job: &Job, among: &[Job]| !among.iter().any(|one| one.job_id == job.job_id);
        for job in &self.jobs {
            if job.status() == JobStatus::AwaitingApproval && is_new(job, &self.pending) {
                self.pending.push(job.clone());
            }
        }
        for job in &self.pending {
            if is_new(job, &self.jobs) {
                self.jobs.push(job.clone());
            }
        }
        self.jobs.retain(|job| self.filter.admits(job));
        Sort::NeedsSomebody.sort(&mut self.pending);
        self.sort.sort(&mut self.jobs);
        if let Some(opened) = seen.opened {
            self.open(opened);
        }
    }

    fn happen(&mut self, job_id: &str, event: Event) {
        // A watch that was left may still have had something to say.
        if self.watched.as_deref() != Some(job_id) {
            return;
        }
        // Who reads what was before goes on reading it.
        if self.back > 0 {
            self.back += 1;
        }
        self.events.push_back(event);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// A job as it is now, in place of what it was.
    fn replace(&mut self, job: Job) {
        let is_it = |one: &Job| one.job_id == job.job_id;
        if job.status() != JobStatus::AwaitingApproval {
            self.pending.retain(|one| !is_it(one));
        }
        if let Some(opened) = self.opened.as_mut().filter(|one| one.job.as_ref().is_some_and(is_it))
        {
            opened.job = Some(job.clone());
        }
        if let Some(place) = self.jobs.iter_mut().find(|one| is_it(one)) {
            *place = job;
        }
        self.sort.sort(&mut self.jobs);
    }

    /// Asks what was to be asked once all that is decided on is there.
    fn ask_to_decide(&mut self) {
        let Some(wanted) = self.deciding.take() else { return };
        let Some((_, job)) = self.opened(&wanted.job_id) else {
            self.deciding = Some(wanted);
            return;
        };
        match Ask::about(wanted.act, job) {
            Ok(ask) => {
                self.news = None;
                self.over = Over::Asking(ask);
            }
            Err(why) => self.news = Some(News::Bad(why)),
        }
    }

    fn open(&mut self, opened: GetJobResponse) {
        let before = self.opened.take();
        // A later look leaves the submission out.
        let kept = before.filter(|before| id_of(before) == id_of(&opened)).and_then(|one| one.spec);
        self.opened = Some(GetJobResponse { spec: opened.spec.or(kept), ..opened });
    }

    /// Selects the job in this place.
    pub fn select(&mut self, place: usize) {
        let place = place.min(self.jobs.len().saturating_sub(1));
        let id = self.jobs.get(place).map_or_else(String::new, |job| job.job_id.clone());
        self.selected = (id, place);
    }

    /// Brings in order what a change has moved: the selection stays with its job, and on the screen.
    pub fn settle(&mut self) {
        let place = self.jobs.iter().position(|job| job.job_id == self.selected.0);
        self.select(place.unwrap_or(self.selected.1));
        let rows = draw::rows(self).max(1);
        let last = self.jobs.len().saturating_sub(rows);
        let place = self.selected.1;
        self.offset = self.offset.clamp((place + 1).saturating_sub(rows), place).min(last);
        if self.view == View::Job {
            self.scroll = self.scroll.min(draw::job::overflow(self));
        }
        self.back = self.back.min(draw::events::overflow(self));
    }
}

fn id_of(opened: &GetJobResponse) -> Option<&str> {
    opened.job.as_ref().map(|job| job.job_id.as_str())
}
