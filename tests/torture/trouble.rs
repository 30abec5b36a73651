//! Trouble at the two outside services: every few seconds another script of faults, most of which strike a few times.
//!
//! What strikes is counted by kind, from the times that are left when the script is replaced.

use std::sync::Arc;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::plan::between_ms;
use super::shape::SEARCHES;
use super::world::World;

/// How often a fault strikes that may strike for ever.
const OFTEN: u64 = 1_000_000;

/// Makes trouble until told to stop; then everything goes well.
pub async fn run(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    let mut kinds = Vec::new();
    while !stop.is_cancelled() {
        let script = any_script(&mut random);
        count(&world, &kinds).await;
        world
            .script(&json!({"model": faults(&script.model), "whatsapp": faults(&script.whatsapp)}))
            .await;
        kinds = script.model.into_iter().map(|fault| ("provider", fault)).collect();
        kinds.extend(script.whatsapp.into_iter().map(|fault| ("WhatsApp", fault)));
        sleep(between_ms(&mut random, 700, 3500)).await;
    }
    count(&world, &kinds).await;
    world.script(&json!({"model": null, "whatsapp": null})).await;
}

/// A fault and what it is called.
type Fault = (&'static str, Value);

struct Script {
    model: Vec<Fault>,
    whatsapp: Vec<Fault>,
}

fn faults(script: &[Fault]) -> Vec<Value> {
    script.iter().map(|(_, fault)| fault.clone()).collect()
}

/// Counts how often each fault of the script that is about to go has struck.
async fn count(world: &World, kinds: &[(&str, Fault)]) {
    let left = world.faults().await;
    let mut left_of =
        [("provider", "model"), ("WhatsApp", "whatsapp")].map(|(service, section)| {
            (service, left[section].as_array().cloned().unwrap_or_default().into_iter())
        });
    for (service, (kind, fault)) in kinds {
        let Some((_, left)) = left_of.iter_mut().find(|(name, _)| name == service) else {
            continue;
        };
        let Some(left) = left.next() else { continue };
        let times = |fault: &Value| fault["times"].as_u64().unwrap_or_default();
        let struck = times(fault).saturating_sub(times(&left));
        // What is slow all the time is how things are, and no fault.
        if times(fault) < OFTEN && struck > 0 {
            world.tally.add_many(&format!("{service} faults: {kind}"), struck);
        }
    }
}

fn any_script(random: &mut StdRng) -> Script {
    let count = random.random_range(0..=3);
    let mut model: Vec<Fault> = (0..count).map(|_| any_model_fault(random)).collect();
    // A step takes a while, so that something can happen in it.
    let pace = json!({"event_delay_ms": random.random_range(5..40), "times": OFTEN});
    model.push(("pace", pace));
    let count = random.random_range(0..=2);
    Script { model, whatsapp: (0..count).map(|_| any_whatsapp_fault(random)).collect() }
}

fn any_model_fault(random: &mut StdRng) -> Fault {
    let events = random.random_range(0..8);
    let (kind, mut fault) = match random.random_range(0..11) {
        0 => ("slow", json!({"delay_ms": random.random_range(200..2500)})),
        1 => ("silent", json!({"silent_after_events": events})),
        2 => ("dripping", json!({"event_delay_ms": random.random_range(100..400)})),
        3 => ("cut", json!({"cut_after_events": events})),
        4 => ("ended early", json!({"end_after_events": events})),
        5 => {
            let seconds = random.random_range(0..3);
            ("429", json!({"status": 429, "retry_after_seconds": seconds}))
        }
        6 => ("529", json!({"status": 529})),
        7 => ("500", json!({"status": 500})),
        8 => ("error in the stream", json!({"error_after_events": events})),
        9 => {
            // Once a search: who pauses again and again is given up.
            let fault = json!({"stop_reason": "pause_turn", "matching": SEARCHES, "times": 1});
            return ("paused turn", fault);
        }
        _ => ("held", json!({"hold": true})),
    };
    fault["times"] = random.random_range(1..=6).into();
    (kind, fault)
}

fn any_whatsapp_fault(random: &mut StdRng) -> Fault {
    let (kind, mut fault) = match random.random_range(0..7) {
        0 => ("slow", json!({"delay_ms": random.random_range(200..2000)})),
        1 => ("500", json!({"status": 500})),
        2 => ("503", json!({"code": 131_016})),
        3 => ("429", json!({"code": 130_429})),
        4 => ("pair rate", json!({"code": 131_056})),
        5 => ("lost before", json!({"drop": "before"})),
        _ => ("lost after", json!({"drop": "after"})),
    };
    fault["times"] = random.random_range(1..=4).into();
    (kind, fault)
}
