//! kill -9 between sending a message and recording it, and before it is sent: again and again, on one database.
//!
//! A server is killed with a notice on its way, and another behind it: a request for a decision, and the end of a job.
//! After its restart, once the grace time is over, the request has arrived and its links open,
//! nobody was told an end twice, and what nobody knows is shown as such.
//! `LONGHAUL_KILLS` says how often; `scripts/kill-send` does it two hundred times.

use std::time::Instant;

use longhaul::rpc::proto::{ApprovalStep, Delivery, JobSettings, JobStatus, SubmitJobRequest};
use serde_json::{Value, json};

use crate::ask::{NOTE, form, links};
use crate::harness::{Process, Rig, approval_step, job, wait, with};

const KILLS: usize = 15;
/// A month, so that no request expires however often the clock is shifted.
const LONG_SECONDS: i32 = 30 * 86_400;
/// More than the grace time of a try.
const GRACE_SECONDS: i32 = 61;
/// Longer than any test waits.
const NEVER_MS: u64 = 600_000;

/// True once no notice of the job is on its way any more.
const ALL_JUDGED: &str = "select bool_and(delivery not in ('pending', 'sending'))
    from longhaul.outbox where job_id = $1";
const LEAVES: &str = "select bool_and(delivery = 'sending') from longhaul.outbox where job_id = $1";

const NOBODY_IS_LEFT: &str = "select count(*) = 0 and $1 <> '' from pg_stat_activity
    where datname = current_database() and application_name = 'longhaul'";

/// When the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// `WhatsApp` has taken the message, and the server does not know it.
    Taken,
    /// It is on its way, and never arrives.
    OnItsWay,
    /// Wherever it is right after both jobs are stored.
    Anywhere,
}

const MOMENTS: [Moment; 3] = [Moment::Taken, Moment::OnItsWay, Moment::Anywhere];

/// One kill: the two jobs whose notices it hits, and whom they are for.
struct Round {
    moment: Moment,
    /// Which of the two is hit; the other one comes right behind it.
    hits_the_end: bool,
    ask: String,
    end: String,
    asked: String,
    told: String,
}

#[expect(clippy::disallowed_methods, reason = "this configures the tests and not the product")]
fn kills() -> usize {
    let given = std::env::var("LONGHAUL_KILLS").ok().filter(|given| !given.is_empty());
    given.map_or(KILLS, |given| given.parse().expect("LONGHAUL_KILLS is a number"))
}

impl Round {
    fn number(number: usize) -> Self {
        Self {
            moment: MOMENTS[number % MOMENTS.len()],
            hits_the_end: number % 2 == 1,
            ask: format!("ask-{number}"),
            end: format!("end-{number}"),
            asked: format!("+1555300{number:04}"),
            told: format!("+1555400{number:04}"),
        }
    }

    fn jobs(&self) -> [SubmitJobRequest; 2] {
        let step = ApprovalStep {
            note: NOTE.to_owned(),
            approvers: vec![self.asked.clone()],
            timeout_seconds: LONG_SECONDS,
            ..ApprovalStep::default()
        };
        let settings = JobSettings { notify: vec![self.told.clone()], ..JobSettings::default() };
        let ask = job(&self.ask, [approval_step(step)]);
        let end = with(settings, job(&self.end, [wait(0)]));
        if self.hits_the_end { [end, ask] } else { [ask, end] }
    }

    /// Has the notices sent, and kills the server at the moment.
    async fn kill(&self, rig: &Rig, server: Process) {
        match self.moment {
            Moment::Taken => rig.sandbox.break_whatsapp(json!({"delay_ms": NEVER_MS})).await,
            Moment::OnItsWay => {
                let lost = json!({"drop": "before", "delay_ms": NEVER_MS});
                rig.sandbox.break_whatsapp(lost).await;
            }
            Moment::Anywhere => {}
        }
        let (job_id, person) =
            if self.hits_the_end { (&self.end, &self.told) } else { (&self.ask, &self.asked) };
        let [first, second] = self.jobs();
        server.client.submit(first).await;
        match self.moment {
            Moment::Taken => drop(rig.sandbox.messages(person, 1).await),
            Moment::OnItsWay => rig.db.wait_until(LEAVES, job_id).await,
            Moment::Anywhere => {}
        }
        server.client.submit(second).await;
        server.kill9().await;
        // Postgres finishes what it was asked before, which must not happen after the clock was shifted.
        rig.db.wait_until(NOBODY_IS_LEFT, &self.ask).await;
        rig.sandbox.mend().await;
    }

    /// What has to hold once the server that came after has judged everything.
    async fn judge(&self, rig: &Rig, server: &Process) {
        rig.db.wait_until(ALL_JUDGED, &self.ask).await;
        rig.db.wait_until(ALL_JUDGED, &self.end).await;
        let hit = if self.hits_the_end { &self.end } else { &self.ask };
        let what = format!("{:?} {hit}", self.moment);

        let requests = rig.sandbox.messages(&self.asked, 1).await.len();
        let expected = match (self.moment, self.hits_the_end) {
            (Moment::Taken, false) => 2..=2,
            (Moment::OnItsWay, _) => 1..=1,
            // What was not sent yet is sent once; what was, perhaps twice.
            (Moment::Taken, true) | (Moment::Anywhere, _) => 1..=2,
        };
        assert!(expected.contains(&requests), "{what}: asked {requests} times");
        let link = links(&rig.sandbox, &self.asked, requests).await.approve;
        // The address was that of a server which is gone; the token is what counts.
        let token = link.rsplit('/').next().unwrap();
        let page = server.client.http.get(format!("{}/approvals/{token}", server.client.http_url));
        let page = page.send().await.unwrap().text().await.unwrap();
        assert!(page.contains(NOTE), "{what}: {page}");
        let [notice] = &server.client.job(&self.ask).await.notices[..] else { panic!("{what}") };
        assert_eq!(notice.delivery(), Delivery::Sent, "{what}: {}", notice.error);

        let ends = rig.sandbox.messages(&self.told, 0).await.len();
        let [notice] = &server.client.job(&self.end).await.notices[..] else { panic!("{what}") };
        let is_hit = self.hits_the_end && self.moment != Moment::Anywhere;
        match (notice.delivery(), self.moment) {
            (Delivery::Sent, _) if !is_hit => assert_eq!(ends, 1, "{what}"),
            (Delivery::Unconfirmed, Moment::Taken) if is_hit => assert_eq!(ends, 1, "{what}"),
            (Delivery::Unconfirmed, Moment::OnItsWay) => assert_eq!(ends, 0, "{what}"),
            (Delivery::Unconfirmed, _) if !is_hit => assert!(ends <= 1, "{what}: {ends}"),
            (delivery, _) => panic!("{what}: {delivery:?} {}", notice.error),
        }
        let says_why = !notice.error.is_empty();
        assert_eq!(says_why, notice.delivery() == Delivery::Unconfirmed, "{}", notice.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_while_it_sends_tells_no_end_twice_and_loses_no_request() {
    let kills = kills();
    let rig = Rig::without_server(&[]).await;
    let mut server = Process::serve(&rig, &[]).await;
    let began_at = Instant::now();
    for number in 0..kills {
        let round = Round::number(number);
        round.kill(&rig, server).await;
        rig.db.shift_clock(GRACE_SECONDS).await;
        server = Process::serve(&rig, &[]).await;
        round.judge(&rig, &server).await;
    }
    // Nothing that was judged comes to life again.
    rig.db.shift_clock(3600).await;
    let settings = JobSettings { notify: vec!["+19995550100".to_owned()], ..Default::default() };
    server.client.submit(with(settings, job("last", [wait(0)]))).await;
    rig.db.wait_until(ALL_JUDGED, "last").await;
    let all = rig.sandbox.messages("+19995550100", 1).await;
    assert_eq!(all.len(), 1);
    let mut ends = Vec::new();
    for number in 0..kills {
        let round = Round::number(number);
        let told = rig.sandbox.messages(&round.told, 0).await;
        assert!(told.len() <= 1, "{:?}: {} was told twice: {told:?}", round.moment, round.end);
        ends.extend(told);
        server.client.settled_as(&round.ask, JobStatus::AwaitingApproval).await;
    }
    let unconfirmed = "select count(*) from longhaul.outbox where delivery = 'unconfirmed'";
    let unconfirmed = rig.db.number(unconfirmed).await;
    println!(
        "{kills} kills in {:.1?}: {} ends were told, {unconfirmed} are unconfirmed",
        began_at.elapsed(),
        ends.len(),
    );
    decide(&rig, &server, &Round::number(kills - 1)).await;
}

/// The last link decides as any other.
async fn decide(rig: &Rig, server: &Process, round: &Round) {
    let requests: Vec<Value> = rig.sandbox.messages(&round.asked, 1).await;
    let link = links(&rig.sandbox, &round.asked, requests.len()).await.approve;
    let token = link.rsplit('/').next().unwrap();
    let press = form(&server.client, &round.ask, "approve", "").await;
    let link = format!("{}/approvals/{token}", server.client.http_url);
    let post = server.client.http.post(link).body(press);
    let post = post.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post.send().await.unwrap().status(), 303);
    server.client.settled_as(&round.ask, JobStatus::Completed).await;
}
