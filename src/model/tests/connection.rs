//! The client's connections, to a provider over TLS: how many there are, whom one that dies takes along, and what
//! becomes of them when the provider speaks another HTTP.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio::task::JoinSet;

use super::provider::{Asked, End, Provider, Speech};
use super::*;

/// So long a connection may take to open, where that is tried to the end.
const CONNECT: Duration = Duration::from_millis(300);

fn settings(provider: &Provider, streams: usize) -> ModelSettings {
    ModelSettings {
        base_url: format!("https://localhost:{}", provider.address.port()),
        api_key: Some("key".into()),
        streams,
        ..ModelSettings::default()
    }
}

fn make(settings: ModelSettings) -> Model {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Model::adapted(settings, trusting).expect("the settings are right")
}

fn trusting(builder: ClientBuilder) -> ClientBuilder {
    let certificate = reqwest::Certificate::from_der(&Provider::certificate());
    builder.tls_certs_only([certificate.expect("a certificate")])
}

type Asking = JoinSet<Result<Reply, ModelError>>;

/// Makes so many calls at once.
fn ask(model: &Model, count: usize) -> Asking {
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let model = model.clone();
        asking.spawn(async move { model.ask(&call(), &Partial::default()).await });
    }
    asking
}

async fn ended(asking: Asking) -> (usize, Vec<ModelError>) {
    let (mut answered, mut failed) = (0, Vec::new());
    for ended in asking.join_all().await {
        match ended {
            Ok(reply) => {
                assert_eq!(reply.text, "Hello");
                answered += 1;
            }
            Err(error) => failed.push(error),
        }
    }
    (answered, failed)
}

async fn answer(asked: impl IntoIterator<Item = Asked>) {
    for asked in asked {
        asked.answer(&whole("end_turn")).await;
    }
}

/// One call and its answer, from which it is known what the provider speaks.
async fn get_to_know(model: &Model, provider: &mut Provider) {
    let asking = ask(model, 1);
    answer([provider.asked().await]).await;
    assert_eq!(ended(asking).await, (1, vec![]));
}

fn by_connection(asked: &[Asked]) -> Vec<usize> {
    let mut counts = BTreeMap::<usize, usize>::new();
    for asked in asked {
        *counts.entry(asked.connection).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    // Which connection was opened first, nobody can tell.
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    counts
}

#[tokio::test]
async fn no_call_waits_for_the_end_of_another_and_none_opens_a_connection_for_itself() {
    let mut provider = Provider::serve(Speech::Http2, 100).await;
    let model = make(settings(&provider, 100));
    get_to_know(&model, &mut provider).await;
    let before = provider.opened();
    let asking = ask(&model, 250);
    // None of them is answered before all have been asked.
    let asked = provider.many(250).await;
    assert_eq!(by_connection(&asked), [100, 100, 50]);
    assert_eq!(provider.opened() - before, 3);
    answer(asked).await;
    assert_eq!(ended(asking).await, (250, vec![]));

    // The same connections take the next ones.
    let asking = ask(&model, 250);
    answer(provider.many(250).await).await;
    assert_eq!(ended(asking).await, (250, vec![]));
    assert_eq!(provider.opened() - before, 3);
}

#[tokio::test]
async fn the_first_of_a_crowd_finds_out_what_the_provider_speaks() {
    let mut provider = Provider::serve(Speech::Http2, 10).await;
    let model = make(settings(&provider, 10));
    let asking = ask(&model, 21);
    let mut first = provider.asked().await.begin().expect("it is there");
    // Its head is enough for the others.
    let rest = provider.many(20).await;
    assert_eq!((by_connection(&rest), provider.opened()), (vec![10, 10], 3));
    answer(rest).await;
    first.send_data(whole("end_turn").into(), true).expect("it is there");
    assert_eq!(ended(asking).await, (21, vec![]));
}

#[tokio::test]
async fn nobody_waits_long_for_the_one_who_finds_out() {
    let mut provider = Provider::serve(Speech::Http2, 10).await;
    let model = make(ModelSettings { connect_timeout: CONNECT, ..settings(&provider, 10) });
    let asking = ask(&model, 3);
    let asked = provider.many(3).await;
    answer(asked).await;
    assert_eq!(ended(asking).await, (3, vec![]));

    // If it fails, another goes ahead.
    let model = make(settings(&provider, 10));
    let asking = ask(&model, 3);
    let first = provider.asked().await;
    provider.end(first.connection, End::Cut);
    let second = provider.asked().await.begin();
    let third = provider.asked().await;
    second.expect("it is there").send_data(whole("end_turn").into(), true).expect("it is there");
    answer([third]).await;
    let (answered, failed) = ended(asking).await;
    assert_eq!((answered, failed.len()), (2, 1), "{failed:?}");
}

#[tokio::test]
async fn a_connection_that_dies_takes_only_its_own_calls() {
    for end in [End::Cut, End::Refused] {
        let mut provider = Provider::serve(Speech::Http2, 4).await;
        let model = make(settings(&provider, 4));
        get_to_know(&model, &mut provider).await;
        let asking = ask(&model, 12);
        let asked = provider.many(12).await;
        assert_eq!(by_connection(&asked), [4, 4, 4]);
        let dies = asked[0].connection;
        // Two of its answers have begun.
        let (lost, kept): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|asked| asked.connection == dies);
        let mut lost = lost.into_iter();
        let begun = [lost.next(), lost.next()].map(|asked| asked.and_then(Asked::begin));
        provider.end(dies, end);
        answer(kept).await;
        let (answered, failed) = ended(asking).await;
        assert_eq!((answered, failed.len()), (8, 4), "{end:?}");
        assert!(begun.iter().all(Option::is_some));
        for error in failed {
            let (reason, retry) = (Reason::ProviderUnavailable, Retry::Backoff);
            assert_eq!((error.reason, error.retry), (reason, retry), "{error}");
        }
        drop(lost);
        // Nobody has to be told that it is gone.
        let asking = ask(&model, 12);
        let first = provider.asked().await;
        answer([first]).await;
        answer(provider.many(11).await).await;
        assert_eq!(ended(asking).await, (12, vec![]), "{end:?}");
    }
}

#[tokio::test]
async fn a_connection_that_has_died_without_a_word_is_given_up_with_its_calls() {
    let mut provider = Provider::serve(Speech::Http2, 4).await;
    let impatient = Model::adapted(settings(&provider, 4), |builder| {
        let builder = trusting(builder).http2_keep_alive_interval(Duration::from_millis(200));
        builder.http2_keep_alive_timeout(Duration::from_secs(1))
    });
    let model = impatient.expect("the settings are right");
    get_to_know(&model, &mut provider).await;
    let asking = ask(&model, 8);
    let asked = provider.many(8).await;
    let dies = asked[0].connection;
    let (mut lost, kept): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|asked| asked.connection == dies);
    // The answer to one of them has begun, or would have.
    let _begun = lost.pop().and_then(Asked::begin).expect("it is there");
    provider.end(dies, End::Frozen);
    answer(kept).await;
    let (answered, failed) = ended(asking).await;
    assert_eq!((answered, failed.len()), (4, 4), "{failed:?}");
    // They were told by the connection, and not by their own patience.
    let says = |words: &str| failed.iter().filter(|error| error.message.contains(words)).count();
    assert!(says("keep-alive timed out") >= 3, "{failed:?}");
    assert_eq!(says("the answer "), 0, "{failed:?}");
}

#[tokio::test]
async fn who_has_its_answer_or_gives_up_makes_room() {
    let mut provider = Provider::serve(Speech::Http2, 2).await;
    let model = make(settings(&provider, 2));
    get_to_know(&model, &mut provider).await;
    let mut asking = ask(&model, 2);
    let mut asked = provider.many(2).await;
    let before = provider.opened();
    answer(asked.pop()).await;
    asking.join_next().await.expect("two were asked").expect("it ends").expect("it is answered");
    get_to_know(&model, &mut provider).await;
    assert_eq!(provider.opened(), before);

    // A call that is dropped resets its stream.
    let mut held = asked.pop().and_then(Asked::begin).expect("it is there");
    asking.shutdown().await;
    std::future::poll_fn(|context| held.poll_reset(context)).await.expect("a reset");
    let asking = ask(&model, 2);
    answer(provider.many(2).await).await;
    assert_eq!(ended(asking).await, (2, vec![]));
    assert_eq!(provider.opened(), before);
}

#[tokio::test]
async fn a_provider_without_http2_has_a_connection_for_each_call() {
    let mut provider = Provider::serve(Speech::Http1, 1).await;
    let model = make(settings(&provider, 2));
    get_to_know(&model, &mut provider).await;
    let asking = ask(&model, 7);
    let asked = provider.many(7).await;
    assert_eq!(by_connection(&asked), [1; 7]);
    answer(asked).await;
    assert_eq!(ended(asking).await, (7, vec![]));
}

#[tokio::test]
async fn a_provider_may_come_to_speak_another_http() {
    let mut provider = Provider::serve(Speech::Http2, 2).await;
    let model = make(settings(&provider, 2));
    get_to_know(&model, &mut provider).await;
    get_to_know(&model, &mut provider).await;
    for (speech, most) in [(Speech::Http1, 2), (Speech::Http2, 0)] {
        provider.speak(speech);
        for connection in 0..provider.opened() {
            provider.end(connection, End::Cut);
        }
        // Each call that finds it out is told once, and no more than two have to.
        let mut failed = 0;
        loop {
            let mut asking = ask(&model, 1);
            tokio::select! {
                asked = provider.asked() => {
                    answer([asked]).await;
                    if asking.join_next().await.is_some_and(|ended| matches!(ended, Ok(Ok(_)))) {
                        break;
                    }
                    failed += 1;
                }
                Some(ended) = asking.join_next() => {
                    ended.expect("it does not panic").expect_err("nothing was asked");
                    failed += 1;
                }
            }
            assert!(failed <= most, "{failed} failed");
        }
        get_to_know(&model, &mut provider).await;
    }
}

#[tokio::test]
async fn a_connection_that_does_not_open_is_told_to_all_who_wait_for_it_at_once() {
    let mut provider = Provider::serve(Speech::Http2, 100).await;
    let model = make(ModelSettings { connect_timeout: CONNECT, ..settings(&provider, 100) });
    get_to_know(&model, &mut provider).await;
    provider.speak(Speech::Nothing);
    let begun_at = Instant::now();
    let (answered, failed) = ended(ask(&model, 30)).await;
    assert_eq!((answered, failed.len()), (0, 30));
    // One after the other they would take thirty times as long as one.
    assert!(begun_at.elapsed() < 10 * CONNECT, "{:?}", begun_at.elapsed());
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_opens_a_connection_does_not_fail_those_who_wait_for_it() {
    let mut provider = Provider::serve(Speech::Http2, 100).await;
    let model = make(settings(&provider, 100));
    get_to_know(&model, &mut provider).await;
    let before = provider.opened();
    provider.speak(Speech::Nothing);
    let opener = ask(&model, 1);
    while provider.opened() == before {
        tokio::task::yield_now().await;
    }
    let waiting = ask(&model, 5);
    // One after the other on this thread, they get to wait before it is given up.
    tokio::task::yield_now().await;
    provider.speak(Speech::Http2);
    drop(opener);
    answer(provider.many(5).await).await;
    assert_eq!(ended(waiting).await, (5, vec![]));
}
