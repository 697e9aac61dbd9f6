//! Agents under random actions: every message is kept once and in order, and every tool call has exactly one
//! result, both in the stored messages and in those that the model receives.

mod oracle;
mod world;

use proptest::prelude::*;
use world::World;

/// A tool that the model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It succeeds.
    Works,
    /// It returns an error to the model.
    Fails,
    /// It ends the turn on the first call and succeeds on the second.
    Breaks,
    /// A person must approve it.
    Guarded,
}

/// The reply of the model.
#[derive(Debug, Clone)]
enum Answer {
    Text,
    Calls(Vec<Kind>),
    Fails,
}

/// The decision of a person.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Approve,
    Change,
    Reject,
    Answer(bool),
    GoOn,
    Retry,
}

/// An action on an agent.
#[derive(Debug, Clone)]
enum Action {
    /// A message of the person; it abandons the pending action of an earlier run.
    Say {
        answers: Vec<Answer>,
        streamed: bool,
    },
    Decide {
        choice: Choice,
        answers: Vec<Answer>,
    },
    /// Another agent imports the exported state.
    Move,
    Save,
    /// Loads a checkpoint, counted from the latest.
    Load(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Nowhere,
    WhenAsked,
    Always,
}

#[derive(Debug, Clone)]
struct Plan {
    kept: Storage,
    window: u64,
    threshold: u64,
    /// `true` if the model that writes summaries succeeds.
    writes: bool,
    actions: Vec<Action>,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Works), 2 => Just(Kind::Fails), 1 => Just(Kind::Breaks), 3 => Just(Kind::Guarded)]
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let answer = prop_oneof![
        2 => Just(Answer::Text),
        4 => prop::collection::vec(kind(), 1..4).prop_map(Answer::Calls),
        1 => Just(Answer::Fails),
    ];
    prop::collection::vec(answer, 0..4)
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        4 => Just(Choice::Approve),
        2 => Just(Choice::Change),
        2 => Just(Choice::Reject),
        2 => any::<bool>().prop_map(Choice::Answer),
        1 => Just(Choice::GoOn),
        2 => Just(Choice::Retry),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (answers(), any::<bool>()).prop_map(|(answers, streamed)| Action::Say { answers, streamed }),
        6 => (choice(), answers()).prop_map(|(choice, answers)| Action::Decide { choice, answers }),
        2 => Just(Action::Move),
        2 => Just(Action::Save),
        1 => (0..30_usize).prop_map(Action::Load),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let kept = prop_oneof![Just(Storage::Nowhere), Just(Storage::WhenAsked), Just(Storage::Always)];
    let actions = prop::collection::vec(action(), 1..14);
    (kept, 1..5_u64, 2..8_u64, any::<bool>(), actions).prop_map(
        |(kept, window, threshold, writes, actions)| Plan { kept, window, threshold, writes, actions },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: valvehouse_testkit::cases(60), ..ProptestConfig::default() })]

    #[test]
    fn random_runs_keep_every_message_once_and_one_result_per_call(plan in plan()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&plan));
    }
}

async fn run(plan: &Plan) {
    let mut world = World::new(plan).await;
    for action in &plan.actions {
        world.does(action).await;
        world.is_as_expected(action).await;
    }
}

#[tokio::test]
async fn a_paused_run_can_be_loaded_again_after_an_older_checkpoint() {
    let calls = vec![Answer::Calls(vec![Kind::Guarded])];
    let actions = vec![
        Action::Say { answers: calls, streamed: false },
        Action::Save,
        Action::Load(1),
        Action::Load(0),
        Action::Decide { choice: Choice::Approve, answers: Vec::new() },
    ];
    run(&Plan { kept: Storage::Always, window: 4, threshold: 7, writes: true, actions }).await;
}
