//! The seeds of the fuzzer as tests: each is replayed, and so are bytes that are a few changes away from them.
//!
//! In: the files of `fuzz/seeds/TARGET`, crashes that were found and mended among them. Out: a panic, if a law is broken.
//! What one input may take is bounded: time, and memory by the input's own size.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Far longer than any input takes, also on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(10);
/// What an input may take at once: so much for itself, and so many times its size.
const BYTES_MAX: u64 = 16 << 20;
const BYTES_A_BYTE_MAX: u64 = 2_000;

/// A change of bytes: where it begins, as a part of the whole, how long it is, and what comes there.
#[derive(Clone, Debug)]
enum Change {
    Put(f64, Vec<u8>),
    Cut(f64, usize),
    Flip(f64, u8),
    Repeat(f64, usize, usize),
}

/// Calls the target with each seed of that name, and with many neighbours of each.
pub(crate) fn try_all(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> =
        files.map(|file| file.expect("a folder that was opened can be read").path()).collect();
    paths.sort();
    assert!(paths.len() >= 3, "{} has too few seeds", folder.display());
    let seeds: Vec<Vec<u8>> =
        paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect();
    for (path, seed) in paths.iter().zip(&seeds) {
        assert!(seed.len() <= 64 << 10, "{} is too large for a seed", path.display());
        try_one(target, seed);
    }
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let change = prop_oneof![
        (0.0..1.0, prop::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(at, put)| Change::Put(at, put)),
        (0.0..1.0, 1_usize..40).prop_map(|(at, length)| Change::Cut(at, length)),
        (0.0..1.0, 1_u8..).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (0.0..1.0, 1_usize..40, 1_usize..60)
            .prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
    ];
    let near = (prop::sample::select(seeds), prop::collection::vec(change, 1..8));
    let tried = TestRunner::new(config).run(&near, |(seed, changes)| {
        try_one(target, &changes.iter().fold(seed, changed));
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{name}: {error}");
    }
}

fn changed(mut bytes: Vec<u8>, change: &Change) -> Vec<u8> {
    let (Change::Put(part, _)
    | Change::Cut(part, _)
    | Change::Flip(part, _)
    | Change::Repeat(part, ..)) = change;
    let at = (part * bytes.len() as f64) as usize;
    let until = |length: usize| (at + length).min(bytes.len());
    match change {
        Change::Put(_, put) => drop(bytes.splice(at..at, put.iter().copied())),
        Change::Cut(_, length) => drop(bytes.drain(at..until(*length))),
        Change::Flip(_, bits) => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bits;
            }
        }
        Change::Repeat(_, length, times) => {
            let piece = bytes[at..until(*length)].repeat(*times);
            drop(bytes.splice(at..at, piece));
        }
    }
    bytes
}

fn try_one(target: fn(&[u8]), bytes: &[u8]) {
    let begun = Instant::now();
    let taken = allocation_counter::measure(|| target(bytes));
    assert!(begun.elapsed() < PATIENCE, "{:?} for {:?}", begun.elapsed(), bytes.escape_ascii());
    let most = BYTES_MAX + bytes.len() as u64 * BYTES_A_BYTE_MAX;
    assert!(taken.bytes_max <= most, "{} bytes for {:?}", taken.bytes_max, bytes.escape_ascii());
}
