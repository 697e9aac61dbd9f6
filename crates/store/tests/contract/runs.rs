//! Only one run at a time works on a conversation; a late writer gets an error, and nothing is stored
//! partially.

use super::conversations::{
    ME, NO_PROCESS, begin, beginning, conversation_of, ended, step, texts, user_message,
};
use super::{json, *};

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_run_begins_with_what_is_said(&fresh().await).await;
    a_run_can_begin_with_its_first_step(&fresh().await).await;
    nobody_speaks_while_somebody_works(&fresh().await).await;
    a_conversation_that_has_grown_is_told(&fresh().await).await;
    a_run_whose_process_is_gone_is_in_nobodys_way(&fresh().await).await;
    what_was_under_way_at_a_takeover_is_refused(&fresh().await).await;
    a_new_run_takes_the_place_of_one_that_could_go_on(&fresh().await).await;
    a_run_has_an_id_of_its_own(&fresh().await).await;
    a_step_is_kept_as_a_whole(&fresh().await).await;
    a_step_that_comes_late_is_not_kept(&fresh().await).await;
    a_run_that_does_not_run_keeps_no_steps(&fresh().await).await;
    a_paused_run_goes_on_with_whoever_claims_it(&fresh().await).await;
    only_a_run_that_can_go_on_is_claimed(&fresh().await).await;
    of_many_who_claim_a_run_one_has_it(&fresh().await).await;
    of_many_who_begin_one_begins(&fresh().await).await;
    runs_are_listed_by_how_they_stand(&fresh().await).await;
    checkpoints_are_found_by_id_and_run_and_listed(&fresh().await).await;
}

async fn a_run_begins_with_what_is_said(store: &Store) {
    let run = begin(store, "r", "a", 0, &[user_message("hi")]).await;
    assert_eq!((run.id.as_str(), run.conversation.as_str(), run.step), ("r", "a", 0));
    assert_eq!((run.status, run.owner.as_str(), run.pid), (RunStatus::Running, ME, std::process::id()));
    assert_eq!((&run.pending, run.error.as_str()), (&Json::Null, ""));
    assert!(run.is_alive());
    assert_eq!(store.run("r").await.unwrap(), Some(run));
    let conversation = store.conversation("a").await.unwrap().unwrap();
    assert_eq!((conversation.agent.as_str(), conversation.length), ("agent", 1));
    assert_eq!(texts(store, "a").await, ["hi"]);
}

async fn nobody_speaks_while_somebody_works(store: &Store) {
    let run = begin(store, "r", "a", 0, &[user_message("hi")]).await;
    let busy = store.begin_run(&beginning("s", "a", 1, &[user_message("me too")])).await.unwrap();
    assert_eq!(busy, RunStart::Busy(run.clone()), "not even the one who works on it");
    let behind = store.begin_run(&beginning("s", "a", 0, &[])).await.unwrap();
    assert_eq!(behind, RunStart::Busy(run));
    assert_eq!(store.run("s").await.unwrap(), None);
    assert_eq!(texts(store, "a").await, ["hi"]);
    begin(store, "s", "b", 0, &[user_message("elsewhere")]).await;
    assert!(store.keep_step(&ended("r", 0, RunStatus::Done)).await.unwrap());
    begin(store, "t", "a", 1, &[user_message("now")]).await;
}

async fn a_conversation_that_has_grown_is_told(store: &Store) {
    let moved = store.begin_run(&beginning("r", "a", 3, &[user_message("x")])).await.unwrap();
    assert_eq!(moved, RunStart::Moved(0), "one that is new has no messages");
    assert_eq!(store.conversation("a").await.unwrap(), None);
    conversation_of(store, "a", &[user_message("1"), user_message("2")]).await;
    for expected in [0, 1, 3, u64::MAX] {
        let moved = store.begin_run(&beginning("r", "a", expected, &[user_message("x")])).await.unwrap();
        assert_eq!(moved, RunStart::Moved(2));
    }
    assert_eq!(texts(store, "a").await, ["1", "2"]);
    assert_eq!(store.run("r").await.unwrap(), None);
}

async fn a_run_whose_process_is_gone_is_in_nobodys_way(store: &Store) {
    let dead = NewRun { owner: "dead", pid: NO_PROCESS, ..beginning("r", "a", 0, &[]) };
    let RunStart::Begun(run) = store.begin_run(&dead).await.unwrap() else { panic!("nobody is in the way") };
    assert_eq!((run.status, run.is_alive()), (RunStatus::Running, false));
    let claimed = store.claim_run("r", 0, ME, std::process::id()).await.unwrap().unwrap();
    assert!(claimed.is_alive());
    assert!(
        !store.keep_step(&RunStep { owner: "dead", ..step("r", 0, &[user_message("x")]) }).await.unwrap(),
        "an owner that was given up and comes back writes nothing"
    );
    assert_eq!(claimed.step, 1);
    assert!(store.keep_step(&step("r", 1, &[user_message("x")])).await.unwrap());
}

async fn what_was_under_way_at_a_takeover_is_refused(store: &Store) {
    let left = NewRun { pid: NO_PROCESS, ..beginning("r", "a", 0, &[]) };
    assert!(matches!(store.begin_run(&left).await.unwrap(), RunStart::Begun(_)));
    let mut stands = 0;
    for owner in ["other", ME, ME] {
        let claimed = store.claim_run("r", stands, owner, NO_PROCESS).await.unwrap().unwrap();
        assert_eq!(claimed.step, stands + 1, "each takeover has a number of its own");
        for owner in ["other", ME] {
            let late = RunStep { owner, ..ended("r", stands, RunStatus::Failed) };
            assert!(!store.keep_step(&late).await.unwrap(), "also from the owner who has it again");
        }
        stands = claimed.step;
    }
    assert!(store.keep_step(&step("r", stands, &[user_message("x")])).await.unwrap());
    assert_eq!(texts(store, "a").await, ["x"]);
}

async fn a_new_run_takes_the_place_of_one_that_could_go_on(store: &Store) {
    for (place, status) in [RunStatus::Paused, RunStatus::Failed, RunStatus::Done].into_iter().enumerate() {
        begin(store, status.name(), "a", place as u64, &[user_message(status.name())]).await;
        let pending = json(r#"{"type":"approval"}"#);
        let step = RunStep { pending: &pending, error: "why", ..ended(status.name(), 0, status) };
        assert!(store.keep_step(&step).await.unwrap());
    }
    let left = NewRun { owner: "dead", pid: NO_PROCESS, ..beginning("left", "a", 3, &[]) };
    assert!(matches!(store.begin_run(&left).await.unwrap(), RunStart::Begun(_)));
    begin(store, "last", "a", 3, &[]).await;
    for (run, status) in [
        ("paused", RunStatus::Cancelled),
        ("failed", RunStatus::Cancelled),
        ("left", RunStatus::Cancelled),
        ("done", RunStatus::Done),
        ("last", RunStatus::Running),
    ] {
        let found = store.run(run).await.unwrap().unwrap();
        assert_eq!(found.status, status, "{run}");
        assert_eq!(found.pending.is_null(), status != RunStatus::Done, "a cancelled run waits for nothing");
    }
    assert_eq!(store.claim_run("paused", 1, ME, 1).await.unwrap(), None);
}

async fn a_run_has_an_id_of_its_own(store: &Store) {
    begin(store, "r", "a", 0, &[user_message("hi")]).await;
    let error = store.begin_run(&beginning("r", "b", 0, &[user_message("x")])).await.unwrap_err().to_string();
    assert!(error.contains("start a run") && error.contains("the run \"r\" already exists"), "{error}");
    assert_eq!(store.conversation("b").await.unwrap(), None);
}

async fn a_step_is_kept_as_a_whole(store: &Store) {
    begin(store, "r", "a", 0, &[user_message("hi")]).await;
    let (state, pending) = (json(r#"{"z":1.0,"a":[]}"#), json(r#"{"z":1.50,"a":null}"#));
    let messages = [user_message("one"), user_message("two")];
    let paused = RunStep {
        checkpoint: Some(("tool", &state)),
        status: RunStatus::Paused,
        pending: &pending,
        error: "not yet",
        kept: Some(&state),
        ..step("r", 0, &messages)
    };
    assert!(store.keep_step(&paused).await.unwrap());
    let run = store.run("r").await.unwrap().unwrap();
    assert_eq!((run.status, run.step, run.error.as_str()), (RunStatus::Paused, 1, "not yet"));
    assert_eq!(run.pending.to_string(), pending.to_string());
    let conversation = store.conversation("a").await.unwrap().unwrap();
    assert_eq!((conversation.length, conversation.kept.to_string()), (3, state.to_string()));
    assert_eq!(texts(store, "a").await, ["hi", "one", "two"]);
    let checkpoint = store.latest_checkpoint("r").await.unwrap().unwrap();
    assert_eq!((checkpoint.conversation.as_str(), checkpoint.run.as_str()), ("a", "r"));
    assert_eq!((checkpoint.step, checkpoint.length, checkpoint.name.as_str()), (1, 3, "tool"));
    assert_eq!(checkpoint.state.to_string(), state.to_string());
}

async fn a_step_that_comes_late_is_not_kept(store: &Store) {
    begin(store, "r", "a", 0, &[]).await;
    assert!(store.keep_step(&step("r", 0, &[user_message("1")])).await.unwrap());
    let (state, kept, messages) = (json("1"), json(r#"{"x":1}"#), [user_message("late")]);
    for (owner, expected) in [(ME, 0), (ME, 2), ("other", 1)] {
        let late = RunStep {
            owner,
            checkpoint: Some(("late", &state)),
            status: RunStatus::Failed,
            kept: Some(&kept),
            ..step("r", expected, &messages)
        };
        assert!(!store.keep_step(&late).await.unwrap());
    }
    assert_eq!(texts(store, "a").await, ["1"]);
    assert_eq!(store.latest_checkpoint("r").await.unwrap(), None);
    assert_eq!(store.conversation("a").await.unwrap().unwrap().kept, Json::object());
    assert_eq!(store.run("r").await.unwrap().unwrap().status, RunStatus::Running);
}

async fn a_run_that_does_not_run_keeps_no_steps(store: &Store) {
    for (place, status) in RunStatus::ALL.into_iter().skip(1).enumerate() {
        begin(store, status.name(), "a", place as u64, &[user_message("x")]).await;
        assert!(store.keep_step(&ended(status.name(), 0, status)).await.unwrap());
        assert!(
            !store.keep_step(&step(status.name(), 1, &[user_message("late")])).await.unwrap(),
            "{status:?}"
        );
    }
}

async fn a_paused_run_goes_on_with_whoever_claims_it(store: &Store) {
    for (place, status) in [RunStatus::Paused, RunStatus::Failed].into_iter().enumerate() {
        let (id, pending) = (status.name(), json(r#"{"hash":"x"}"#));
        begin(store, id, "a", place as u64, &[user_message("x")]).await;
        let stopped = RunStep { pending: &pending, error: "why", ..ended(id, 0, status) };
        assert!(store.keep_step(&stopped).await.unwrap());
        let claimed = store.claim_run(id, 1, "other", std::process::id()).await.unwrap().unwrap();
        assert_eq!((claimed.status, claimed.owner.as_str()), (RunStatus::Running, "other"));
        assert_eq!((claimed.step, claimed.error.as_str(), &claimed.pending), (2, "", &pending));
        assert_eq!(store.run(id).await.unwrap(), Some(claimed.clone()));
        let busy = store.begin_run(&beginning("s", "a", place as u64 + 1, &[])).await.unwrap();
        assert_eq!(busy, RunStart::Busy(claimed));
        assert!(!store.keep_step(&step(id, 2, &[])).await.unwrap(), "it is not mine any more");
        let done = RunStep { owner: "other", ..ended(id, 2, RunStatus::Done) };
        assert!(store.keep_step(&done).await.unwrap());
    }
}

async fn only_a_run_that_can_go_on_is_claimed(store: &Store) {
    begin(store, "r", "a", 0, &[]).await;
    assert_eq!(store.claim_run("r", 0, ME, std::process::id()).await.unwrap(), None, "I work on it");
    assert!(store.keep_step(&ended("r", 0, RunStatus::Paused)).await.unwrap());
    for step in [0, 2] {
        assert_eq!(store.claim_run("r", step, ME, std::process::id()).await.unwrap(), None, "not there");
    }
    assert!(store.claim_run("r", 1, ME, std::process::id()).await.unwrap().is_some());
    assert!(store.keep_step(&ended("r", 2, RunStatus::Done)).await.unwrap());
    assert_eq!(store.claim_run("r", 3, ME, std::process::id()).await.unwrap(), None, "it has ended");
}

async fn of_many_who_claim_a_run_one_has_it(store: &Store) {
    begin(store, "r", "a", 0, &[]).await;
    assert!(store.keep_step(&ended("r", 0, RunStatus::Paused)).await.unwrap());
    let owners: Vec<String> = (0..10).map(|number| format!("owner {number}")).collect();
    let claims = owners.iter().map(|owner| store.claim_run("r", 1, owner, std::process::id()));
    let claims = futures::future::try_join_all(claims).await.unwrap();
    let won: Vec<Run> = claims.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(store.run("r").await.unwrap().unwrap().owner, won[0].owner);
}

async fn of_many_who_begin_one_begins(store: &Store) {
    let runs: Vec<String> = (0..10).map(|number| format!("run {number}")).collect();
    let messages: Vec<[Json; 1]> = runs.iter().map(|run| [user_message(run)]).collect();
    let beginnings: Vec<_> =
        runs.iter().zip(&messages).map(|(run, messages)| beginning(run, "a", 0, messages)).collect();
    let begun = beginnings.iter().map(|beginning| store.begin_run(beginning));
    let begun = futures::future::try_join_all(begun).await.unwrap();
    let won: Vec<&str> = begun
        .iter()
        .filter_map(|begun| match begun {
            RunStart::Begun(run) => Some(run.id.as_str()),
            RunStart::Busy(_) | RunStart::Moved(_) => None,
        })
        .collect();
    assert_eq!(texts(store, "a").await, won, "{begun:?}");
}

async fn runs_are_listed_by_how_they_stand(store: &Store) {
    begin(store, "1", "a", 0, &[]).await;
    assert!(store.keep_step(&ended("1", 0, RunStatus::Done)).await.unwrap());
    begin(store, "2", "b", 0, &[]).await;
    assert!(store.keep_step(&ended("2", 0, RunStatus::Paused)).await.unwrap());
    begin(store, "3", "a", 0, &[]).await;
    begin(store, "4", "c", 0, &[]).await;
    let ids = async |conversation, status, limit| {
        let found = store.runs(conversation, status, limit).await.unwrap();
        found.into_iter().map(|run| run.id).collect::<Vec<_>>().concat()
    };
    assert_eq!(ids(None, None, 10).await, "4321");
    assert_eq!(ids(None, None, 2).await, "43");
    assert_eq!(ids(None, Some(RunStatus::Running), 10).await, "43");
    assert_eq!(ids(None, Some(RunStatus::Paused), 10).await, "2");
    assert_eq!(ids(Some("a"), None, 10).await, "31");
    assert_eq!(ids(Some("a"), None, 1).await, "3");
    assert_eq!(ids(Some("a"), Some(RunStatus::Done), 10).await, "1");
    assert_eq!(ids(Some("b"), Some(RunStatus::Running), 10).await, "");
}

async fn checkpoints_are_found_by_id_and_run_and_listed(store: &Store) {
    begin(store, "r", "a", 0, &[]).await;
    for place in 0..3u64 {
        let state = Json::from([("place", place.into())]);
        let messages = [user_message("x")];
        let step = RunStep { checkpoint: Some(("model", &state)), ..step("r", place, &messages) };
        assert!(store.keep_step(&step).await.unwrap());
    }
    assert!(store.keep_step(&ended("r", 3, RunStatus::Done)).await.unwrap());
    let listed = store.checkpoints("a", 10).await.unwrap();
    let places: Vec<_> = listed.iter().map(|checkpoint| (checkpoint.step, checkpoint.length)).collect();
    assert_eq!(places, [(3, 3), (2, 2), (1, 1)]);
    assert!(listed.is_sorted_by(|later, earlier| later.id > earlier.id), "later ids sort later");
    assert!(listed.iter().all(|checkpoint| checkpoint.state.is_null()));
    assert_eq!(store.checkpoints("a", 2).await.unwrap(), listed[..2]);
    let first = store.checkpoint(&listed[2].id).await.unwrap().unwrap();
    assert_eq!(first.state, json(r#"{"place":0}"#));
    assert_eq!(Checkpoint { state: Json::Null, ..first }, listed[2]);
    assert_eq!(store.latest_checkpoint("r").await.unwrap().unwrap().id, listed[0].id);
}

async fn a_run_can_begin_with_its_first_step(store: &Store) {
    let (state, kept) = (json(r#"{"at":"begin"}"#), json(r#"{"seen":1}"#));
    let first = Some(First { name: "begin", state: &state, kept: &kept });
    let messages = [user_message("hi")];
    let beginning = NewRun { first, ..beginning("r", "a", 0, &messages) };
    let RunStart::Begun(run) = store.begin_run(&beginning).await.unwrap() else {
        panic!("nobody is in the way")
    };
    assert_eq!(run.step, 1);
    assert_eq!(store.run("r").await.unwrap(), Some(run));
    let checkpoint = store.latest_checkpoint("r").await.unwrap().unwrap();
    assert_eq!((checkpoint.step, checkpoint.length, checkpoint.name.as_str()), (1, 1, "begin"));
    assert_eq!(checkpoint.state, state);
    assert_eq!(store.conversation("a").await.unwrap().unwrap().kept, kept);
    assert!(store.keep_step(&step("r", 1, &[user_message("more")])).await.unwrap());
    assert_eq!(texts(store, "a").await, ["hi", "more"]);
}
