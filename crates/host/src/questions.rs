//! Questions that wait for a user, listed and answered at any host of a store.
//!
//! A question waits in the memory of its host, which alone decides which answer is first; so it can be
//! answered there during an outage of the store. Other hosts find it in the store and send their answers
//! there. An answer counts once the host of the question has accepted it.

use crate::host::Host;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use valvehouse_core::context::{HeldQuestion, NewQuestion, QuestionChange, Questions};
use valvehouse_core::error::{Error, Explanation};
use valvehouse_json::Json;
use valvehouse_store::{AnswerState, SentAnswer, Store, StoreError, StoredQuestion, now};

/// The time within which the host of a question must confirm an answer.
const CONFIRMATION_DEADLINE: Duration = Duration::from_secs(5);
/// The maximum time between two checks of the store while a question waits, if the host does not scan it
/// sooner.
const LOOK: Duration = Duration::from_secs(1);
/// The interval at which questions are written again, in case their rows were deleted.
const LISTED_AGAIN: Duration = Duration::from_secs(5);

/// The questions of all hosts of a store.
pub struct SharedQuestions {
    host: Arc<Host>,
    /// The questions of this host.
    own: Questions,
}

/// A question at any host that waits for an operator.
#[derive(Debug, Clone)]
pub struct HostQuestion {
    /// The id of its host.
    pub host: String,
    /// The question.
    pub question: HeldQuestion,
}

impl SharedQuestions {
    /// Creates the shared questions of a host.
    pub fn new(host: Arc<Host>, own: Questions) -> Self {
        Self { host, own }
    }

    /// Returns the questions at all hosts that wait for an operator, oldest first; only those of this host
    /// during an outage of the store.
    pub async fn held(&self) -> Vec<HostQuestion> {
        let of_host = |host: &str, question| HostQuestion { host: host.to_owned(), question };
        let mut all: Vec<_> =
            self.own.held().into_iter().map(|question| of_host(self.host.id(), question)).collect();
        let others = self.host.store().held_questions().await.unwrap_or_else(|error| {
            tracing::debug!("only the questions of this host are listed: {error}");
            Vec::new()
        });
        let now = now();
        let span = |ms: i64| Duration::from_millis(ms.max(0).unsigned_abs());
        for one in others.into_iter().filter(|one| one.host_id != self.host.id()) {
            let Some(question) = one.held else { continue };
            let (waited, left) = (span(now - one.since_ms), span(one.ends_ms - now));
            all.push(of_host(&one.host_id, HeldQuestion { id: one.id, question, waited, left }));
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.question.waited));
        all
    }

    /// Returns the user whom a question of another host is addressed to; `None` if no other running host has
    /// the question.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn owner(&self, id: &str) -> Result<Option<String>, StoreError> {
        // All ids of questions are UUIDs; other texts cause no query.
        if uuid::Uuid::try_parse(id).is_err() {
            return Ok(None);
        }
        let found = self.host.store().question(id).await?;
        Ok(found.filter(|question| question.host_id != self.host.id()).map(|question| question.whose))
    }

    /// Answers a question of another host, as the addressed user or, with `None`, as an operator. Returns
    /// `false` if the question was answered before or has ended.
    ///
    /// # Errors
    /// Returns an error if the store fails, or the host of the question does not confirm the answer in time.
    pub async fn answer(&self, by: Option<&str>, question: &str, answer: Json) -> Result<bool, Error> {
        let store = self.host.store();
        let id = uuid::Uuid::new_v4().to_string();
        let sent = SentAnswer { id, question: question.to_owned(), by: by.map(str::to_owned), answer };
        let mut looks = self.host.store_looks();
        if !store.send_answer(&sent).await? {
            return Ok(false);
        }
        let end = Instant::now() + CONFIRMATION_DEADLINE;
        while Instant::now() < end {
            match store.answer_state(&sent.id).await {
                Ok(AnswerState::Waiting) => {}
                Ok(state) => {
                    if let Err(error) = store.remove_answer(&sent.id).await {
                        tracing::debug!("cannot delete a confirmed answer: {error}");
                    }
                    return Ok(state == AnswerState::Taken);
                }
                Err(error) => tracing::debug!("cannot read the outcome of an answer yet: {error}"),
            }
            next_look(&mut looks).await;
        }
        match store.remove_answer(&sent.id).await? {
            AnswerState::Taken => Ok(true),
            AnswerState::Refused => Ok(false),
            AnswerState::Waiting => {
                let message = format!(
                    "cannot confirm the answer: the host that asked did not respond within {} s; \
                     check whether the question is still open, and answer it again if it is",
                    CONFIRMATION_DEADLINE.as_secs()
                );
                Err(Error::Unstored { message: Explanation::from(message), code: "answer_not_confirmed" })
            }
        }
    }

    /// Writes the questions of this host to the store and accepts the answers of other hosts, until the
    /// future is dropped. The store is not queried while no question waits.
    pub async fn follow(&self) {
        let mut changes = self.own.changes();
        let mut looks = self.host.store_looks();
        let mut open = OpenQuestions::default();
        loop {
            if open.is_idle() {
                let Some(change) = changes.recv().await else { return };
                open.note(change, self.host.id());
            } else {
                tokio::select! {
                    Some(change) = changes.recv() => open.note(change, self.host.id()),
                    () = next_look(&mut looks) => {}
                }
            }
            while let Ok(change) = changes.try_recv() {
                open.note(change, self.host.id());
            }
            if let Err(error) = open.exchange(self.host.store(), self.host.id(), &self.own).await {
                tracing::debug!("questions wait at this host alone: {error}");
                open.give_up_listing();
            }
        }
    }
}

/// Waits until the host has checked its store, or for [`LOOK`].
async fn next_look(looks: &mut watch::Receiver<()>) {
    // A closed channel means that the host is ending.
    let _ = timeout(LOOK, looks.changed()).await;
}

/// The questions of one host, and their rows in the store.
#[derive(Default)]
struct OpenQuestions {
    open: HashMap<String, Listing>,
    /// Questions that have ended and may still have rows.
    closed: Vec<String>,
    /// The outcomes of answers by id, until they are confirmed; `true` if the answer was accepted.
    settled: HashMap<String, bool>,
    listed_at: Option<Instant>,
}

struct Listing {
    row: StoredQuestion,
    /// Notifies that the row is written.
    listed: Option<oneshot::Sender<()>>,
    /// `true` if the row may be in the store.
    is_written: bool,
}

impl OpenQuestions {
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty() && self.settled.is_empty()
    }

    fn note(&mut self, change: QuestionChange, host: &str) {
        match change {
            QuestionChange::Opened(NewQuestion { id, whose, held, timeout, listed }) => {
                let since_ms = now();
                let timeout = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
                let ends_ms = since_ms.saturating_add(timeout);
                let row = StoredQuestion {
                    id: id.clone(),
                    host_id: host.to_owned(),
                    whose,
                    held,
                    since_ms,
                    ends_ms,
                };
                self.open.insert(id, Listing { row, listed: Some(listed), is_written: false });
                self.listed_at = None;
            }
            QuestionChange::Closed(id) => {
                if self.open.remove(&id).is_some_and(|listing| listing.is_written) {
                    self.closed.push(id);
                }
            }
        }
    }

    /// Releases the turns that wait until their questions are written.
    fn give_up_listing(&mut self) {
        self.open.values_mut().for_each(|listing| listing.listed = None);
    }

    /// Writes new questions, deletes ended ones, and accepts the answers of other hosts.
    async fn exchange(&mut self, store: &Store, host: &str, own: &Questions) -> Result<(), StoreError> {
        // The order matters: a host that finds its answer unconfirmed and the question gone takes the answer
        // for rejected.
        self.confirm(store).await?;
        if !self.closed.is_empty() {
            store.remove_questions(&self.closed).await?;
            self.closed.clear();
        }
        if self.open.is_empty() {
            return Ok(());
        }
        if self.listed_at.is_none_or(|at| at.elapsed() > LISTED_AGAIN) {
            self.open.values_mut().for_each(|listing| listing.is_written = true);
            let rows: Vec<StoredQuestion> = self.open.values().map(|listing| listing.row.clone()).collect();
            store.add_questions(&rows).await?;
            self.listed_at = Some(Instant::now());
            for listed in self.open.values_mut().filter_map(|listing| listing.listed.take()) {
                // The turn may have ended meanwhile.
                let _ = listed.send(());
            }
        }
        for SentAnswer { id, question, by, answer } in store.waiting_answers(host).await? {
            let is_taken = match by {
                Some(by) => own.answer_as(&by, &question, answer),
                None => own.answer(&question, answer),
            };
            self.settled.insert(id, is_taken);
        }
        self.confirm(store).await
    }

    /// Confirms the outcomes of answers to the hosts that sent them.
    async fn confirm(&mut self, store: &Store) -> Result<(), StoreError> {
        while let Some((id, is_taken)) =
            self.settled.iter().next().map(|(id, is_taken)| (id.clone(), *is_taken))
        {
            store.settle_answer(&id, is_taken).await?;
            self.settled.remove(&id);
        }
        Ok(())
    }
}
