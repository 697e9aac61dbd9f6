//! Questions that wait at one host and answers from others: one answer is accepted, and questions of dead
//! hosts get none.

use super::*;
use valvehouse_store::{AnswerState, SentAnswer, StoredQuestion};

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_question_is_found_while_its_host_lives_and_until_it_is_removed(&fresh().await).await;
    an_answer_waits_until_the_host_that_asked_settles_it(&fresh().await).await;
    an_answer_to_a_question_that_has_ended_is_refused(&fresh().await).await;
    what_nobody_removed_is_dropped(&fresh().await).await;
    many_questions_are_listed_at_once(&fresh().await).await;
}

fn question(id: &str, host: &str, held: Option<Json>) -> StoredQuestion {
    StoredQuestion {
        id: id.into(),
        host_id: host.into(),
        whose: "user ann".into(),
        held,
        since_ms: now() - 10,
        ends_ms: now() + 60_000,
    }
}

fn sent(id: &str, question: &str, by: Option<&str>) -> SentAnswer {
    let answer = json(r#"{"approved": true, "arguments": {"größe": [1, null]}}"#);
    SentAnswer { id: id.into(), question: question.into(), by: by.map(str::to_owned), answer }
}

async fn a_question_is_found_while_its_host_lives_and_until_it_is_removed(store: &Store) {
    let held = question("q1", "one", Some(json(r#"{"type": "approval", "data": {"tool": "pay"}}"#)));
    let (other, stale) = (question("q2", "one", None), question("q3", "gone", Some(Json::object())));
    store.add_questions(&[held.clone(), other.clone(), stale]).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap(), [], "no host is known");
    assert_eq!(store.question("q1").await.unwrap(), None);
    store.announce("one", 1, 1, None).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap(), std::slice::from_ref(&held));
    assert_eq!(store.question("q1").await.unwrap(), Some(held.clone()));
    assert_eq!(store.question("q2").await.unwrap(), Some(other.clone()), "found, and in no list");
    assert_eq!(store.question("q3").await.unwrap(), None, "its host is not known");
    assert_eq!(store.question("never").await.unwrap(), None);
    // A listed question does not change.
    let changed = StoredQuestion { whose: "user bob".into(), ..held.clone() };
    store.add_questions(&[changed]).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap(), [held]);
    store.remove_questions(&["q1".into(), "never".into()]).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap(), []);
    assert_eq!(store.question("q2").await.unwrap(), Some(other));
    store.leave("one").await.unwrap();
    store.announce("one", 1, 1, None).await.unwrap();
    assert_eq!(store.question("q2").await.unwrap(), None, "they end with their host");
}

async fn an_answer_waits_until_the_host_that_asked_settles_it(store: &Store) {
    store.announce("one", 1, 1, None).await.unwrap();
    store.announce("two", 2, 1, None).await.unwrap();
    store.add_questions(&[question("q1", "one", None), question("q2", "two", None)]).await.unwrap();
    let answers = [sent("a1", "q1", Some("user ann")), sent("a2", "q1", None), sent("a3", "q2", None)];
    for answer in &answers {
        assert!(store.send_answer(answer).await.unwrap());
        assert_eq!(store.answer_state(&answer.id).await.unwrap(), AnswerState::Waiting);
    }
    let mut waiting = store.waiting_answers("one").await.unwrap();
    waiting.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(waiting, answers[..2]);
    assert_eq!(store.waiting_answers("three").await.unwrap(), []);
    store.settle_answer("a1", false).await.unwrap();
    store.settle_answer("a2", true).await.unwrap();
    assert_eq!(store.waiting_answers("one").await.unwrap(), []);
    assert_eq!(store.answer_state("a1").await.unwrap(), AnswerState::Refused);
    // An accepted answer stays accepted, even if the question has ended.
    store.remove_questions(&["q1".into()]).await.unwrap();
    assert_eq!(store.answer_state("a2").await.unwrap(), AnswerState::Taken);
    assert_eq!(store.remove_answer("a2").await.unwrap(), AnswerState::Taken);
    assert_eq!(store.answer_state("a2").await.unwrap(), AnswerState::Refused, "nothing is left of it");
    // A withdrawn answer is not delivered.
    assert_eq!(store.remove_answer("a3").await.unwrap(), AnswerState::Waiting);
    assert_eq!(store.waiting_answers("two").await.unwrap(), []);
    store.settle_answer("a3", true).await.unwrap();
    assert_eq!(store.answer_state("a3").await.unwrap(), AnswerState::Refused);
}

async fn an_answer_to_a_question_that_has_ended_is_refused(store: &Store) {
    store.announce("one", 1, 1, None).await.unwrap();
    store.add_questions(&[question("q1", "one", None), question("q2", "gone", None)]).await.unwrap();
    assert!(!store.send_answer(&sent("a0", "never", None)).await.unwrap());
    assert!(!store.send_answer(&sent("a0", "q2", None)).await.unwrap(), "nobody is there to take it");
    assert!(store.send_answer(&sent("a1", "q1", None)).await.unwrap());
    store.remove_questions(&["q1".into()]).await.unwrap();
    assert_eq!(store.answer_state("a1").await.unwrap(), AnswerState::Refused);
    assert_eq!(store.waiting_answers("one").await.unwrap(), []);
    assert!(!store.send_answer(&sent("a2", "q1", None)).await.unwrap());
}

async fn what_nobody_removed_is_dropped(store: &Store) {
    store.announce("one", 1, 1, None).await.unwrap();
    let left = StoredQuestion { ends_ms: now() - 600_000, ..question("left", "one", None) };
    store.add_questions(&[left]).await.unwrap();
    store.add_questions(&[question("new", "one", None)]).await.unwrap();
    assert_eq!(store.question("left").await.unwrap(), None);
    assert!(store.question("new").await.unwrap().is_some());
}

async fn many_questions_are_listed_at_once(store: &Store) {
    store.announce("one", 1, 1, None).await.unwrap();
    let all: Vec<_> = (0..200)
        .map(|number| question(&format!("q{number}"), "one", Some(i64::from(number).into())))
        .collect();
    store.add_questions(&all).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap().len(), 200);
    let ids: Vec<String> = all.into_iter().map(|question| question.id).collect();
    store.remove_questions(&ids).await.unwrap();
    assert_eq!(store.held_questions().await.unwrap(), []);
}
