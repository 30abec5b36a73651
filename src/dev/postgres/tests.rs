//! The embedded Postgres against the machine's own server programs.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{
    Postgres, PostgresError, PostgresSettings, folder::choose, installation::Installation,
};

/// Names the folder for the process that a test starts in order to kill it.
const FOLDER_OF_THE_DOOMED: &str = "LONGHAUL_TEST_FOLDER_OF_THE_DOOMED";

/// A data folder that is removed with its test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        Self(env::temp_dir().join(format!("longhaul-test-{}", Uuid::new_v4().simple())))
    }

    fn settings(&self) -> PostgresSettings {
        PostgresSettings {
            data_dir: self.0.clone(),
            durable: false,
            max_connections: 10,
            options: Vec::new(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn execute(postgres: &Postgres, statement: &'static str) {
    let mut connection = PgConnection::connect(&postgres.url()).await.unwrap();
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_restart_keeps_the_data() {
    let place = Place::new();
    let first = Postgres::start(place.settings()).await.unwrap();
    assert!(first.freshly_made);
    execute(&first, "create table kept (id int)").await;
    first.stop().await.unwrap();

    let second = Postgres::start(place.settings()).await.unwrap();
    assert!(!second.freshly_made);
    execute(&second, "insert into kept values (1)").await;
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_refused() {
    let place = Place::new();
    let first = Postgres::start(place.settings()).await.unwrap();
    let refused = Postgres::start(place.settings()).await.unwrap_err();
    let process = std::process::id();
    assert!(refused.to_string().ends_with(&format!("is already in use by process {process}")));
    execute(&first, "select 1").await;
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_dropped_server_makes_room_for_the_next() {
    let place = Place::new();
    drop(Postgres::start(place.settings()).await.unwrap());
    Postgres::start(place.settings()).await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn a_folder_of_any_name_has_a_socket_that_nobody_else_may_enter() {
    let place = Place::new();
    for name in ["a long name ".repeat(10).as_str(), "my, \"own\"", "50 % año"] {
        let data_dir = place.0.join(name);
        let settings = PostgresSettings { data_dir: data_dir.clone(), ..place.settings() };
        let postgres = Postgres::start(settings).await.unwrap();
        execute(&postgres, "select 1").await;
        let socket_dir = postgres.socket_dir.path.clone();
        for private in [&socket_dir, &data_dir] {
            assert_eq!(fs::metadata(private).unwrap().mode() & 0o777, 0o700);
        }
        postgres.stop().await.unwrap();
        assert_eq!(socket_dir.exists(), socket_dir.starts_with(&data_dir));
    }
}

#[tokio::test]
async fn a_folder_with_other_contents_is_left_alone() {
    let place = Place::new();
    fs::create_dir(&place.0).unwrap();
    fs::write(place.0.join("diary.txt"), "dear diary").unwrap();
    let refused = Postgres::start(place.settings()).await.unwrap_err();
    assert!(matches!(refused, PostgresError::NotOurs { .. }), "{refused}");
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let place = Place::new();
    let settings = PostgresSettings { max_connections: 1, ..place.settings() };
    let refused = Postgres::start(settings).await.unwrap_err().to_string();
    assert!(refused.contains("superuser_reserved_connections"), "{refused}");
    Postgres::start(place.settings()).await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_parent_takes_its_server_along() {
    let place = Place::new();
    let mut doomed = Command::new(env::current_exe().unwrap())
        .args(["--exact", "dev::postgres::tests::the_doomed", "--ignored", "--nocapture"])
        .env(FOLDER_OF_THE_DOOMED, &place.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(doomed.stdout.take().unwrap());
    let url = output.lines().map_while(Result::ok).find(|line| line.contains("postgres://"));
    let url = url.unwrap().split_once("postgres://").map(|(_, rest)| format!("postgres://{rest}"));
    let mut session = PgConnection::connect(&url.unwrap()).await.unwrap();
    let statement = "create table kept as select 1 as id";
    sqlx::query(statement).execute(&mut session).await.unwrap();
    doomed.kill().unwrap();
    doomed.wait().unwrap();

    // The lock is free only when every process of the old server is gone.
    let next = Postgres::start(place.settings()).await.unwrap();
    sqlx::query("select 1").execute(&mut session).await.unwrap_err();
    execute(&next, "insert into kept values (2)").await;
    next.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "the other half of a_killed_parent_takes_its_server_along"]
async fn the_doomed() {
    let Some(data_dir) = env::var_os(FOLDER_OF_THE_DOOMED) else { return };
    let settings = PostgresSettings {
        data_dir: data_dir.into(),
        durable: false,
        max_connections: 10,
        options: Vec::new(),
    };
    let postgres = Postgres::start(settings).await.unwrap();
    println!("{}", postgres.url());
    // Ends only with its parent, whose end of the pipe closes.
    let _ = io::stdin().read_line(&mut String::new());
}

#[test]
fn without_server_programs_the_message_says_what_to_install() {
    let message = choose(Vec::new(), None, Path::new("/data")).unwrap_err().to_string();
    assert!(message.contains("apt-get install postgresql"), "{message}");
    assert!(message.contains("brew install postgresql"), "{message}");
    let old = Installation { bin: PathBuf::from("/old"), major: 12 };
    let message = choose(vec![old], None, Path::new("/data")).unwrap_err().to_string();
    assert!(message.contains("found (only 12)"), "{message}");
}

#[test]
fn a_cluster_is_opened_only_by_the_version_that_made_it() {
    let installed =
        [18, 16].map(|major| Installation { bin: format!("/{major}").into(), major }).to_vec();
    let chosen = |made_by| choose(installed.clone(), made_by, Path::new("/data"));
    assert_eq!(chosen(Some(16)).unwrap().major, 16);
    assert_eq!(chosen(None).unwrap().major, 18);
    let message = chosen(Some(15)).unwrap_err().to_string();
    assert!(message.contains("made by PostgreSQL 15, and only 18, 16 is installed"), "{message}");
}
