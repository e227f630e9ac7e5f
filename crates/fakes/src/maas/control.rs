//! The calls below `/_fake`: the functions of the library, for tests in other processes.

use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{
    Change, Fault, Op, Outcome, Seed, Shared,
    clock::{self, Now},
    handle::Answer,
    lock,
    world::World,
};
use crate::wire::Request;

/// Answers a call; none if it is not a control call.
pub(super) fn answer(world: &Shared, request: &Request) -> Option<Answer> {
    // Also below the URL that the program prints.
    let path = request.path.strip_prefix("/MAAS").unwrap_or(&request.path);
    let path = path.strip_prefix("/_fake/")?.trim_end_matches('/');
    let parts: Vec<_> = path.split('/').collect();
    let mut world = lock(world);
    let now = clock::now();
    Some(match (&request.method, &parts[..]) {
        (&Method::GET, ["effects"]) => Answer::json(&json!(world.effects())),
        (&Method::GET, ["requests"]) => Answer::json(&json!(world.requests)),
        (&Method::GET, ["machines"]) => Answer::json(&json!(world.machines.keys().collect::<Vec<_>>())),
        (&Method::POST, ["faults"]) => with_body(request, |fault: Fault| match &fault.op {
            Some(op) if !Op::NAMES.contains(&op.as_str()) => {
                Answer::text(400, format!("op: {op:?} is not one of: {}", Op::NAMES.join(", ")))
            }
            Some(_) | None => {
                world.faults.push(fault);
                done()
            }
        }),
        (&Method::DELETE, ["faults"]) => {
            world.faults.clear();
            done()
        }
        (&Method::POST, ["machines"]) => {
            with_body(request, |seed: Seed| Answer::json(&json!({"system_id": world.seed(&seed, now)})))
        }
        (&Method::POST, ["finish"]) => {
            let all: Vec<_> = world.machines.keys().cloned().collect();
            for id in all {
                world.finish(&id, &Outcome::Pass, now);
            }
            done()
        }
        (method, ["machines", id, rest @ ..]) => of_machine(&mut world, method, id, rest, request, now),
        _ => Answer::text(404, "There is no such call"),
    })
}

fn of_machine(
    world: &mut World,
    method: &Method,
    id: &str,
    rest: &[&str],
    request: &Request,
    now: Now,
) -> Answer {
    let Some(id) = world.named(id) else { return Answer::not_found("Machine") };
    let id = id.as_str();
    match (method, rest) {
        (&Method::GET, ["user-data"]) => {
            world.settle(id, now);
            Answer::bytes(world.machines.get(id).map(|machine| machine.user_data.clone()).unwrap_or_default())
        }
        (&Method::POST, []) => with_body(request, |change: Change| {
            world.change(id, &change, now);
            done()
        }),
        (&Method::POST, ["finish"]) => with_body(request, |outcome: Outcome| {
            world.finish(id, &outcome, now);
            done()
        }),
        (&Method::DELETE, []) => {
            world.machines.remove(id);
            done()
        }
        _ => Answer::text(404, "There is no such call"),
    }
}

fn with_body<T: DeserializeOwned>(request: &Request, act: impl FnOnce(T) -> Answer) -> Answer {
    match serde_json::from_slice(&request.body) {
        Ok(body) => act(body),
        Err(error) => Answer::text(400, error.to_string()),
    }
}

fn done() -> Answer {
    Answer::json(&json!({}))
}
