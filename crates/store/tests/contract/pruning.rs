//! Old checkpoints are pruned; messages and runs that can continue remain.

use super::conversations::{begin, ended, step, texts, user_message};
use super::{json, *};

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    of_old_runs_the_last_step_stays_and_of_older_ones_nothing(&fresh().await).await;
    a_run_that_can_go_on_keeps_its_last_step(&fresh().await).await;
    one_conversation_is_pruned_and_the_others_are_left_alone(&fresh().await).await;
}

/// Creates a run of three steps with a checkpoint each, which ends with the given status.
async fn run(store: &Store, id: &str, conversation: &str, status: RunStatus) {
    let length = store.conversation(conversation).await.unwrap().map_or(0, |found| found.length);
    begin(store, id, conversation, length, &[user_message(id)]).await;
    let state = json("{}");
    for place in 0..3 {
        let status = if place == 2 { status } else { RunStatus::Running };
        let step = RunStep { checkpoint: Some(("model", &state)), status, ..step(id, place, &[]) };
        assert!(store.keep_step(&step).await.unwrap());
    }
}

/// Returns the steps that have checkpoints, newest first.
async fn left(store: &Store, conversation: &str) -> Vec<String> {
    let checkpoints = store.checkpoints(conversation, 1000).await.unwrap();
    checkpoints.iter().map(|checkpoint| format!("{}.{}", checkpoint.run, checkpoint.step)).collect()
}

async fn of_old_runs_the_last_step_stays_and_of_older_ones_nothing(store: &Store) {
    for id in ["1", "2", "3", "4", "5"] {
        run(store, id, "a", RunStatus::Done).await;
    }
    assert_eq!(store.prune(None, Prune::default()).await.unwrap(), 0, "the newest stay whole");
    let keep = Prune { whole_runs: 2, runs: 4 };
    assert_eq!(store.prune(None, keep).await.unwrap(), 3 + 2 + 2);
    assert_eq!(left(store, "a").await, ["5.3", "5.2", "5.1", "4.3", "4.2", "4.1", "3.3", "2.3"]);
    assert_eq!(store.prune(None, keep).await.unwrap(), 0);
    assert_eq!(store.prune(None, Prune { whole_runs: 0, runs: 0 }).await.unwrap(), 8);
    assert_eq!(left(store, "a").await, [""; 0]);
    assert_eq!(texts(store, "a").await, ["1", "2", "3", "4", "5"], "never a message");
    assert_eq!(store.runs(None, None, 10).await.unwrap().len(), 5, "nor a run");
}

async fn a_run_that_can_go_on_keeps_its_last_step(store: &Store) {
    let open = [RunStatus::Running, RunStatus::Paused, RunStatus::Failed];
    for status in open {
        run(store, &format!("old {}", status.name()), status.name(), RunStatus::Done).await;
        run(store, status.name(), status.name(), status).await;
    }
    assert_eq!(store.prune(None, Prune { whole_runs: 0, runs: 0 }).await.unwrap(), 3 * 5);
    for status in open {
        assert_eq!(left(store, status.name()).await, [format!("{}.3", status.name())]);
        assert!(store.latest_checkpoint(status.name()).await.unwrap().is_some());
    }
    let last = ended("running", 3, RunStatus::Cancelled);
    assert!(store.keep_step(&last).await.unwrap());
    assert_eq!(store.prune(None, Prune { whole_runs: 0, runs: 0 }).await.unwrap(), 1);
}

async fn one_conversation_is_pruned_and_the_others_are_left_alone(store: &Store) {
    run(store, "1", "a", RunStatus::Done).await;
    run(store, "2", "b", RunStatus::Done).await;
    let keep = Prune { whole_runs: 0, runs: 1 };
    assert_eq!(store.prune(Some("a"), keep).await.unwrap(), 2);
    assert_eq!(left(store, "a").await, ["1.3"]);
    assert_eq!(left(store, "b").await, ["2.3", "2.2", "2.1"]);
    assert_eq!(store.prune(Some("nobody"), keep).await.unwrap(), 0);
    assert_eq!(store.prune(None, keep).await.unwrap(), 2, "each conversation has its own newest");
}
