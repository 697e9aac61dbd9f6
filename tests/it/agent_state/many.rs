//! A hundred concurrent agents on real threads share nothing but their store.

use super::*;
use crate::kernel::{calls, counter};
use parking_lot::Mutex;
use valvehouse::agent::callbacks::{Callback, Callbacks};

const AGENTS: usize = 100;

/// Runs one agent twice; it counts and always replies with its own number.
async fn one(number: usize, store: Arc<Store>) -> (Agent, Vec<(String, String)>) {
    let name = format!("agent-{number}");
    let answer = format!("I am {number}");
    let round = || vec![calls(&name, &[("count", "{}"), ("count", "{}")]), Reply::text(&answer)];
    let model = CannedProvider::new([round(), round()].concat());
    let events: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let callbacks = Callback::ALL.into_iter().fold(Callbacks::new(), |callbacks, callback| {
        let events = events.clone();
        callbacks
            .on(callback, move |event| events.lock().push((event.agent_id.clone(), event.run_id.clone())))
    });
    let builder = Agent::builder().id(&name).provider(Arc::new(model)).tool(counter()).callbacks(callbacks);
    let builder = builder.variables(Json::from([("counter", (1000 * number).into())]));
    let mut agent = builder.storage(store).auto_checkpoint(true).build().unwrap();
    for text in ["first", "second"] {
        let reply = agent.run(&format!("{name} {text}")).await.unwrap();
        assert_eq!(reply.text(), answer);
    }
    let events = events.lock().clone();
    (agent, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_hundred_agents_at_once_share_nothing() {
    let (_folder, store) = store().await;
    let all = (0..AGENTS).map(|number| tokio::spawn(one(number, store.clone())));
    let mut runs = std::collections::HashSet::new();
    for (number, agent) in all.collect::<Vec<_>>().into_iter().enumerate() {
        let (agent, events) = agent.await.unwrap();
        assert_eq!(agent.variables().get("counter"), Some((1000 * number + 4).into()));
        let messages = lines(&agent.state().messages);
        let own = [format!("user: agent-{number} first"), format!("user: agent-{number} second")];
        assert_eq!((messages.len(), [&messages[0], &messages[5]]), (10, [&own[0], &own[1]]));
        let counted: Vec<_> = messages.iter().filter_map(|line| line.strip_prefix("tool: ")).collect();
        assert_eq!(counted, (1..=4).map(|add| (1000 * number + add).to_string()).collect::<Vec<_>>());
        assert_eq!(lines(&store.messages(agent.conversation(), 0, 99).await.unwrap()), messages);
        assert!(events.iter().all(|(id, _)| *id == format!("agent-{number}")) && events.len() > 20);
        let own: std::collections::HashSet<_> = events.into_iter().map(|(_, run)| run).collect();
        assert_eq!(own.len(), 2);
        assert!(own.into_iter().all(|run| runs.insert(run)), "a run is nobody else's");
        for checkpoint in agent.list_checkpoints().await.unwrap() {
            assert!(runs.contains(&checkpoint.run));
        }
    }
}
