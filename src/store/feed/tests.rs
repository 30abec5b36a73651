//! The feeds by themselves: who is woken, who is not, and what is left of those who left.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::*;

fn feeds() -> (Arc<Feeds>, PgPool) {
    let options = PgConnectOptions::new();
    (Arc::default(), PgPoolOptions::new().connect_lazy_with(options))
}

fn follow((feeds, pool): &(Arc<Feeds>, PgPool), job_id: &str) -> Following {
    Following::new(pool.clone(), Arc::clone(feeds), &JobKey::new(job_id))
}

fn is_woken(following: &mut Following, read: i32) -> bool {
    following.news(read).now_or_never().is_some()
}

#[tokio::test]
async fn a_change_wakes_those_who_follow_the_job_and_nobody_else() {
    let feeds = feeds();
    let [mut one, mut two, mut other] = ["a", "a", "b"].map(|job_id| follow(&feeds, job_id));
    for following in [&mut one, &mut two, &mut other] {
        assert!(!is_woken(following, 0));
    }
    feeds.0.wake(JobKey::new("a").wake_number());
    feeds.0.wake(JobKey::new("nobody's").wake_number());
    assert_eq!([&mut one, &mut two, &mut other].map(|one| is_woken(one, 0)), [true, true, false]);
    assert_eq!([&mut one, &mut two, &mut other].map(|one| is_woken(one, 0)), [false; 3]);
}

#[tokio::test]
async fn a_change_between_the_look_and_the_wait_is_not_missed() {
    let feeds = feeds();
    let mut following = follow(&feeds, "a");
    feeds.0.wake(JobKey::new("a").wake_number());
    assert!(is_woken(&mut following, 0));
    for _ in 0..10_000 {
        feeds.0.wake(JobKey::new("a").wake_number());
    }
    assert!(is_woken(&mut following, 0), "many are as good as one");
    assert!(!is_woken(&mut following, 0));
    let mut late = follow(&feeds, "a");
    assert!(!is_woken(&mut late, 0), "what was before is not news");
}

#[tokio::test]
async fn what_a_look_finds_wakes_those_who_have_not_read_so_far() {
    let feeds = feeds();
    let [mut behind, mut ahead] = ["a", "a"].map(|job_id| follow(&feeds, job_id));
    behind.feed.reaches(5);
    assert_eq!((is_woken(&mut behind, 4), is_woken(&mut ahead, 5)), (true, false));
    behind.feed.reaches(5);
    assert!(!is_woken(&mut behind, 4), "it was told that already");
    behind.feed.reaches(4);
    assert_eq!(behind.feed.last_sequence(), 5);
    behind.feed.reaches(6);
    assert!(is_woken(&mut behind, 4) && is_woken(&mut ahead, 5));
}

#[tokio::test]
async fn who_left_leaves_nothing_behind() {
    let feeds = feeds();
    let all = ["a", "a", "b"].map(|job_id| follow(&feeds, job_id));
    assert_eq!((feeds.0.all().len(), feeds.0.lock().len()), (2, 2));
    let [one, two, other] = all;
    drop(one);
    drop(other);
    assert_eq!((feeds.0.all().len(), feeds.0.lock().len()), (1, 1));
    feeds.0.wake(JobKey::new("a").wake_number());
    drop(two);
    assert!(feeds.0.lock().is_empty());
}

#[tokio::test]
async fn two_jobs_that_share_a_number_are_both_woken_and_kept_apart() {
    let feeds = feeds();
    let mut one = follow(&feeds, "a");
    // As if the hash of another job began with the same 64 bits.
    let mut two = follow(&feeds, "b");
    let (a, b) = (JobKey::new("a").wake_number(), JobKey::new("b").wake_number());
    {
        let mut followed = feeds.0.lock();
        let moved = followed.remove(&b).expect("b is followed");
        followed.get_mut(&a).expect("a is followed").extend(moved);
    }
    feeds.0.wake(a);
    assert!(is_woken(&mut one, 0) && is_woken(&mut two, 0));
    drop(one);
    assert_eq!(feeds.0.all().iter().map(|feed| feed.key.job_id()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn an_error_of_a_shared_read_is_everybodys() {
    let settings = PgPoolOptions::new().acquire_timeout(std::time::Duration::from_millis(50));
    let nowhere = PgConnectOptions::new().host("127.0.0.1").port(1);
    let feeds = (Arc::<Feeds>::default(), settings.connect_lazy_with(nowhere));
    let all = ["a", "a", "a"].map(|job_id| follow(&feeds, job_id));
    let pages = futures::future::join_all(all.iter().map(|one| one.page(0))).await;
    for page in pages {
        assert!(matches!(page, Err(StoreError::Unavailable(_))), "{page:?}");
    }
    assert!(all[0].feed.lock_kept().reading.is_none(), "the next read is another one");
}
