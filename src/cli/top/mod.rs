//! `longhaul top`: all jobs, live, on the whole screen of a terminal, and what they need of people.
//!
//! In come keys and what the server says; out go frames, and the actions that were answered with yes.
//! The state decides everything and is pure; here it is only fed, drawn, and its wishes are carried out.
//! The terminal is put in order whatever ends the view: a key, Ctrl-C, SIGTERM, an error or a panic.

pub mod state;

pub mod key;

pub mod pick;

pub mod rate;

pub mod ask;

pub mod poll;

pub mod draw;

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use crossterm::event::{Event as Typed, EventStream};
use futures::StreamExt as _;
use ratatui::DefaultTerminal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use self::{
    ask::Ask,
    draw::Look,
    pick::Filter,
    poll::{Aim, Asked, within},
    state::{Input, State, Want},
};
use super::{
    client::{self, Client, ClientArgs, call_error, in_words},
    exit::{CliError, Exit},
    follow::{Beside, Seen as Followed, follow},
    render::Paint,
};
use crate::rpc::proto::watch_job_response::Content;

/// How often what is shown of the time is brought up to date.
const TICK: Duration = Duration::from_secs(1);
/// How many of its past events a watch begins with.
const BEFORE: i32 = 200;

/// See all jobs live on the whole screen, and decide and move them
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Which jobs at first, as after `/`: statuses, labels as KEY=VALUE, and the beginning of an id, with spaces between
    #[arg(long, value_name = "WHICH", default_value = "", hide_default_value = true, value_parser = Filter::parse)]
    filter: Filter,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: TopArgs) -> Result<Exit> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let why = "`longhaul top` needs a terminal; elsewhere use `longhaul list`";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    let mut client = args.client.connect().await?;
    let mut view = View::of(args.filter, args.client.server()?);
    // What the server refuses for good is told as everywhere, before the screen is taken.
    let seen = within(poll::look(&mut client, &view.aim(), &mut Asked::default()))
        .await
        .map_err(call_error)?;
    view.hear(Input::Seen(Box::new(seen)));
    let screen = Whole::take().context("taking the whole screen of the terminal")?;
    view.show(client, screen).await
}

/// The whole screen of a terminal, which is given back when it is dropped, and before a panic is told.
struct Whole(DefaultTerminal);

impl Whole {
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_why| {
            let _as_far_as_it_goes = ratatui::try_restore();
        })
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _gone = self.0.show_cursor();
        let _gone = ratatui::try_restore();
    }
}

/// The state, and since when there is one.
struct View {
    state: State,
    began: Instant,
}

/// What carries out what the state wants.
struct Hands {
    client: Client,
    aim: watch::Sender<Aim>,
    out: mpsc::Sender<Input>,
    tasks: JoinSet<()>,
    watching: JoinSet<()>,
}

impl View {
    fn of(filter: Filter, server: String) -> Self {
        let state = State { server, filter, ..State::default() };
        Self { state, began: Instant::now() }
    }

    fn aim(&self) -> Aim {
        Aim {
            selector: self.state.filter.selector(),
            prefix: self.state.filter.prefix.clone(),
            open: self.state.open_id.clone(),
        }
    }

    fn hear(&mut self, input: Input) {
        self.state.take(self.began.elapsed(), input);
    }

    /// Shows everything until it is left.
    async fn show(mut self, client: Client, mut screen: Whole) -> Result<Exit> {
        let look = Look { has_colour: Paint::for_stdout().is_on() };
        let (aim, wanted) = watch::channel(self.aim());
        let (out, mut inputs) = mpsc::channel(64);
        let mut hands = Hands { client, aim, out, tasks: JoinSet::new(), watching: JoinSet::new() };
        hands.tasks.spawn(poll::look_on(hands.client.clone(), wanted, hands.out.clone()));
        hands.tasks.spawn(poll::add_up(hands.client.clone(), hands.out.clone()));
        let mut typed = EventStream::new();
        let mut ticks = tokio::time::interval(TICK);
        // A terminal in raw mode sends Ctrl-C as a key; others may send the signal.
        let mut interrupted = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let mut told_to_stop = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        loop {
            let size = screen.0.size().context("asking how large the terminal is")?;
            self.hear(Input::Resized(size.width, size.height));
            screen.0.draw(|frame| draw::draw(frame, &self.state, look)).context("drawing")?;
            let wants = tokio::select! {
                event = typed.next() => match event {
                    Some(Ok(Typed::Key(key))) => self.state.press(self.began.elapsed(), key),
                    Some(Ok(_)) => Vec::new(),
                    Some(Err(error)) => return Err(error).context("reading the terminal"),
                    // The terminal is gone.
                    None => return Ok(Exit::Interrupted),
                },
                Some(input) = inputs.recv() => {
                    self.hear(input);
                    Vec::new()
                }
                _ = ticks.tick() => Vec::new(),
                _ = told_to_stop.recv() => return Ok(Exit::Interrupted),
                _ = interrupted.recv() => return Ok(Exit::Interrupted),
                Some(ended) = hands.tasks.join_next() => {
                    ended.context("a part of the view broke down")?;
                    Vec::new()
                }
            };
            for want in wants {
                match want {
                    Want::Leave(exit) => return Ok(exit),
                    Want::Redraw => screen.0.clear().context("drawing anew")?,
                    Want::Look => {
                        hands.aim.send_replace(self.aim());
                    }
                    Want::Open(job_id) => hands.open(job_id),
                    Want::Watch(job_id) => hands.watch(job_id),
                    Want::Unwatch => hands.watching = JoinSet::new(),
                    Want::Act(ask) => hands.act(ask),
                }
            }
        }
    }
}

impl Hands {
    fn open(&mut self, job_id: String) {
        let (mut client, out) = (self.client.clone(), self.out.clone());
        self.tasks.spawn(async move {
            let opened = within(client::get_job(&mut client, &job_id, true)).await;
            let input = match opened {
                Ok(reply) => Input::Opened(Box::new(reply)),
                Err(status) => Input::Refused(format!("{job_id}: {}", told(&status))),
            };
            let _left = out.send(input).await;
        });
    }

    fn act(&mut self, ask: Ask) {
        let (mut client, out) = (self.client.clone(), self.out.clone());
        self.tasks.spawn(async move {
            let done = within(async { client.control(ask.request()).await }).await;
            let input = match done.map(tonic::Response::into_inner) {
                Ok(reply) => {
                    Input::Done(ask, Box::new(reply.job.unwrap_or_default()), reply.changed)
                }
                Err(status) => {
                    let (_, done) = ask.act.in_words();
                    // Where no answer came, it may have been done all the same.
                    let is_unknown =
                        client::is_passing(&status) && status.code() != Code::ResourceExhausted;
                    let what = if is_unknown { "perhaps" } else { "not" };
                    Input::Refused(format!("{what} {done}: {}: {}", ask.job_id, told(&status)))
                }
            };
            let _left = out.send(input).await;
        });
    }

    fn watch(&mut self, job_id: String) {
        // The one before ends with its set.
        self.watching = JoinSet::new();
        let (mut client, out) = (self.client.clone(), self.out.clone());
        self.watching.spawn(async move {
            let last = match within(client::get_job(&mut client, &job_id, false)).await {
                Ok(reply) => reply.job.unwrap_or_default().last_sequence,
                Err(status) => {
                    let _left = out.send(Input::Unwatched(job_id.clone(), told(&status))).await;
                    return;
                }
            };
            let after = last.saturating_sub(BEFORE).max(0);
            let mut seen = follow(&client, &job_id, Some(after), Beside::default());
            while let Some(next) = seen.recv().await {
                let input = match next {
                    Ok(Followed::Message(message)) => match message.content {
                        Some(Content::Event(event)) => {
                            Input::Happened(job_id.clone(), Box::new(event))
                        }
                        Some(
                            Content::Snapshot(_)
                            | Content::Heartbeat(_)
                            | Content::OutputDelta(_)
                            | Content::Notice(_),
                        )
                        | None => continue,
                    },
                    Ok(Followed::Lost(why)) => Input::Unwatched(job_id.clone(), why),
                    Err(status) => Input::Unwatched(job_id.clone(), told(&status)),
                };
                if out.send(input).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// What was refused, with the reason that programs are told.
fn told(status: &Status) -> String {
    let words = in_words(status);
    match status.get_details_error_info() {
        Some(info) if !info.reason.is_empty() => format!("{words} ({})", info.reason),
        _ => words,
    }
}
