//! Conversations in the store, under any sequence of actions by any process.

mod model;
mod processes;

use model::{Model, NO_PROCESS};
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;
use valvehouse::json::Json;
use valvehouse::store::{Prune, RunStatus, Store};

const CONVERSATIONS: [&str; 3] = ["a", "ü' --", ""];
const OWNERS: [&str; 2] = ["me", "you"];

/// An action on the store. Runs and steps are counted from the latest.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Begin { conversation: &'static str, owner: &'static str, dead: bool, ahead: u64, length: u64 },
    Keep { run: usize, owner: &'static str, ahead: u64, length: u64, checkpoint: bool, status: RunStatus },
    Claim { run: usize, owner: &'static str, dead: bool, ahead: u64 },
    Fork { from: &'static str, to: &'static str, less: u64 },
    Carry { from: &'static str, to: &'static str },
    Prune { conversation: Option<&'static str>, keep: Prune },
    Forget { conversation: &'static str },
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    let (conversation, owner) = (|| select(CONVERSATIONS.to_vec()), || select(OWNERS.to_vec()));
    // Callers with wrong or outdated data are rarer than correct ones.
    let (ahead, run) = (|| select(vec![0, 0, 0, 0, 1]), || select(vec![0, 0, 0, 1, 2]));
    let status = || {
        use RunStatus::{Cancelled, Done, Failed, Paused, Running};
        select(vec![Running, Running, Running, Paused, Paused, Failed, Done, Done, Cancelled])
    };
    let dead = || select(vec![false, false, true]);
    let prune = (prop::option::of(conversation()), 0..2u64, 0..3u64);
    prop_oneof![
        6 => (conversation(), owner(), dead(), ahead(), 0..3u64).prop_map(
            |(conversation, owner, dead, ahead, length)| Action::Begin { conversation, owner, dead, ahead, length }
        ),
        16 => (run(), owner(), ahead(), 0..3u64, any::<bool>(), status()).prop_map(
            |(run, owner, ahead, length, checkpoint, status)| Action::Keep { run, owner, ahead, length, checkpoint, status }
        ),
        6 => (run(), owner(), dead(), ahead())
            .prop_map(|(run, owner, dead, ahead)| Action::Claim { run, owner, dead, ahead }),
        3 => (conversation(), conversation(), 0..3u64).prop_map(|(from, to, less)| Action::Fork { from, to, less }),
        3 => (conversation(), conversation()).prop_map(|(from, to)| Action::Carry { from, to }),
        5 => prune.prop_map(|(conversation, whole_runs, runs)| Action::Prune {
            conversation,
            keep: Prune { whole_runs, runs },
        }),
        1 => conversation().prop_map(|conversation| Action::Forget { conversation }),
        1 => Just(Action::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: valvehouse_testkit::by_length(8, 200), ..ProptestConfig::default() })]

    #[test]
    fn the_store_agrees_with_a_simple_in_memory_model(
        actions in prop::collection::vec(action(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(both_do(&actions));
    }
}

async fn both_do(actions: &[Action]) {
    let folder = TempDir::new().unwrap();
    let mut store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    let mut model = Model::default();
    for action in actions {
        if let Action::Restart = action {
            store.close().await;
            store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
        } else {
            model.does_as(&store, action).await;
        }
        model.is_what_is_in(&store).await;
    }
    let other = Store::sqlite(&folder.path().join("other.db")).await.unwrap();
    for conversation in CONVERSATIONS {
        let Some(exported) = store.export(conversation).await.unwrap() else { continue };
        let text = exported.to_string();
        assert!(other.import(&Json::parse(text.as_bytes()).unwrap(), None).await.unwrap());
        assert_eq!(other.export(conversation).await.unwrap().unwrap().to_string(), text);
    }
}

/// Returns the id of this process, or one that does not exist.
fn process(dead: bool) -> u32 {
    if dead { NO_PROCESS } else { std::process::id() }
}
