//! Turns that are split over several requests: Open WebUI sends one request for the inlet of each filter, one
//! for the chat if it goes through this host, and one for the outlets. The state of scripts lasts from the
//! first part to the last.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::{EmittedEvent, States};
use valvehouse_core::shared_queue::SharedQueue;
use valvehouse_json::Json;

/// The time for which a turn is stored after its last part.
const KEPT: Duration = Duration::from_secs(600);
/// The maximum number of stored turns, which callers share.
const MAX_TURNS: usize = 10_000;
/// The maximum number of bytes that the scripts of one turn can store between its parts.
const LARGEST_TURN: usize = 1 << 20;
/// The maximum number of bytes of the events that the inlets of one turn emit for its chat.
const ALL_EVENTS: usize = LARGEST_TURN / 2;
/// The maximum number of bytes that all turns can store together.
const ALL_TURNS: usize = 64 << 20;

/// The key of the turn that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnPart {
    /// The caller with a user's key; "" for operators, who are trusted to name users.
    pub caller: String,
    /// The user's id.
    pub user: String,
    /// The id of the conversation; "" if there is none.
    pub chat: String,
    /// The id of the message that is being answered.
    pub message: String,
}

/// The state that the parts of one turn share. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct SplitTurn(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    states: States,
    metadata: Json,
    ran: Mutex<Progress>,
    answer: Mutex<Option<(String, Json)>>,
    events: Mutex<Vec<EmittedEvent>>,
    edit: Mutex<Option<AnswerEdit>>,
}

/// The text of an answer as the client received it, and after the outlets.
#[derive(Debug)]
pub struct AnswerEdit {
    /// The streamed text.
    pub sent: String,
    /// The text that replaces it.
    pub text: String,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            states: States::default(),
            metadata: Json::object(),
            ran: Mutex::default(),
            answer: Mutex::default(),
            events: Mutex::default(),
            edit: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Progress {
    inlets: BTreeSet<String>,
    outlets: BTreeSet<String>,
    /// The incarnation of each plugin id; plugins that used one id successively have different numbers.
    incarnations: HashMap<String, u64>,
}

impl SplitTurn {
    /// Returns the scratch maps of the turn's plugins.
    pub fn states(&self) -> &States {
        &self.0.states
    }

    /// Returns the live metadata map that all hooks of the turn share.
    pub fn metadata(&self) -> &Json {
        &self.0.metadata
    }

    /// Records that the inlet of a filter ran.
    pub fn inlet_ran(&self, filter: &str) {
        self.0.ran.lock().inlets.insert(filter.to_owned());
    }

    /// Returns the filters whose inlets ran.
    pub fn inlets(&self) -> Vec<String> {
        self.0.ran.lock().inlets.iter().cloned().collect()
    }

    /// Records filters whose outlets already ran within the chat request.
    pub fn outlets_ran(&self, filters: Vec<String>) {
        self.0.ran.lock().outlets.extend(filters);
    }

    /// Returns `true` if the outlet of a filter already ran within the chat request.
    pub fn has_outlet_run(&self, filter: &str) -> bool {
        self.0.ran.lock().outlets.contains(filter)
    }

    /// Stores the answer that the inlet of a filter returned instead of the model's. For the rest of the turn,
    /// only guards run.
    pub fn answered(&self, filter: &str, answer: &Json) {
        *self.0.answer.lock() = Some((filter.to_owned(), answer.deep_clone()));
    }

    /// Returns the answer of an inlet, with the name of its filter.
    pub fn answer(&self) -> Option<(String, Json)> {
        self.0.answer.lock().clone()
    }

    /// Returns `true` if an inlet returned an answer instead of the model's.
    pub fn is_answered(&self) -> bool {
        self.0.answer.lock().is_some()
    }

    /// Stores the events that an inlet emitted, for the stream of the chat. Those over the limit are dropped.
    pub fn keep_events(&self, events: &[EmittedEvent]) {
        let mut kept = self.0.events.lock();
        kept.extend_from_slice(events);
        let mut bytes = 0;
        kept.retain(|event| {
            bytes += event.0.size_estimate();
            bytes <= ALL_EVENTS
        });
    }

    /// Takes the events that the inlets emitted.
    pub fn take_events(&self) -> Vec<EmittedEvent> {
        std::mem::take(&mut self.0.events.lock())
    }

    /// Records that the outlets changed text of the answer that the client had received.
    pub fn answer_edited(&self, edit: AnswerEdit) {
        *self.0.edit.lock() = Some(edit);
    }

    /// Takes the change of the answer by its outlets.
    pub fn take_edit(&self) -> Option<AnswerEdit> {
        self.0.edit.lock().take()
    }

    /// Records which plugin has this id during the turn.
    pub fn meets(&self, plugin: &str, incarnation: u64) {
        self.0.ran.lock().incarnations.entry(plugin.to_owned()).or_insert(incarnation);
    }

    /// Removes the state of plugins whose id now belongs to another plugin or to none. `incarnation` returns
    /// the current incarnation of an id.
    pub fn forget_strangers(&self, incarnation: impl Fn(&str) -> Option<u64>) {
        let kept = self.0.states.all().into_iter().map(|(plugin, _)| plugin);
        let mut ran = self.0.ran.lock();
        let all: BTreeSet<String> =
            kept.chain(ran.inlets.iter().cloned()).chain(ran.outlets.iter().cloned()).collect();
        for plugin in all {
            let now = incarnation(&plugin);
            let known = ran.incarnations.get(&plugin).copied();
            if let Some(now) = now
                && known.is_none_or(|known| known == now)
            {
                ran.incarnations.insert(plugin, now);
                continue;
            }
            self.0.states.remove(&plugin);
            ran.inlets.remove(&plugin);
            ran.outlets.remove(&plugin);
            ran.incarnations.remove(&plugin);
        }
    }

    fn size_estimate(&self) -> usize {
        let states = self.0.states.all();
        let answer = self.0.answer.lock().as_ref().map_or(0, |(_, answer)| answer.size_estimate());
        let events: usize = self.0.events.lock().iter().map(|event| event.0.size_estimate()).sum();
        answer
            + events
            + self.0.metadata.size_estimate()
            + states.iter().map(|(_, state)| state.size_estimate()).sum::<usize>()
    }
}

/// The turns of which a part arrived recently.
#[derive(Debug, Default)]
pub struct PartedTurns(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    /// The turns of callers, ordered by the time of their last part.
    turns: SharedQueue<String, (TurnPart, SplitTurn, Instant)>,
    numbers: HashMap<TurnPart, u64>,
}

impl PartedTurns {
    /// Returns the turn of a part if an earlier part is stored.
    pub fn find(&self, part: &TurnPart) -> Option<SplitTurn> {
        let mut kept = self.0.lock();
        kept.forget_old();
        let (_, turn, _) = kept.turns.get(*kept.numbers.get(part)?)?;
        Some(turn.clone())
    }

    /// Returns the turn of a part, a new one if no earlier part is stored.
    pub fn find_or_begin(&self, part: &TurnPart) -> SplitTurn {
        self.find(part).unwrap_or_default()
    }

    /// Stores a turn for its next part. If its scripts store too many bytes, the turn is removed instead.
    pub fn keep(&self, part: TurnPart, turn: &SplitTurn) {
        let weight = turn.size_estimate();
        let mut kept = self.0.lock();
        kept.forget(&part);
        if weight > LARGEST_TURN {
            tracing::warn!(
                chat = part.chat,
                "cannot store {weight} bytes of script state between inlet and outlet: the limit is \
                 {LARGEST_TURN} bytes, so the outlets start with empty state"
            );
            return;
        }
        let entry = (part.clone(), turn.clone(), Instant::now());
        let number = kept.turns.push(part.caller.clone(), weight, entry);
        kept.numbers.insert(part, number);
        kept.forget_old();
        for (_, (part, ..)) in kept.turns.fit(MAX_TURNS, ALL_TURNS) {
            kept.numbers.remove(&part);
        }
    }
}

impl Cache {
    fn forget(&mut self, part: &TurnPart) {
        self.numbers.remove(part).and_then(|number| self.turns.remove(number));
    }

    fn forget_old(&mut self) {
        while let Some((_, (part, ..))) = self.turns.first().filter(|(_, (.., last))| last.elapsed() > KEPT) {
            self.forget(&part.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(message: &str) -> TurnPart {
        TurnPart { caller: String::new(), user: "ann".into(), chat: "c".into(), message: message.into() }
    }

    #[test]
    fn values_of_scripts_reach_the_next_request_of_the_same_turn_only() {
        let turns = PartedTurns::default();
        let first = SplitTurn::default();
        first.states().of("limit").set("n", 1i64).unwrap();
        first.metadata().set("seen", true).unwrap();
        first.inlet_ran("limit");
        turns.keep(part("m1"), &first);

        let next = turns.find(&part("m1")).unwrap();
        assert_eq!(next.states().of("limit").get("n"), Some(1i64.into()));
        assert_eq!(next.metadata().get("seen"), Some(true.into()));
        assert_eq!(next.inlets(), ["limit"]);
        assert!(turns.find(&part("m2")).is_none());
        let others = TurnPart { user: "bob".into(), ..part("m1") };
        assert!(turns.find(&others).is_none(), "another user's turn is another turn");
    }

    #[test]
    fn values_of_a_plugin_are_hidden_from_another_plugin_with_its_id() {
        let turn = SplitTurn::default();
        let keep = |plugin: &str| {
            turn.states().of(plugin).set("n", 1i64).unwrap();
            turn.inlet_ran(plugin);
        };
        ["same", "other", "gone"].into_iter().for_each(keep);
        turn.forget_strangers(|_| Some(1));
        turn.forget_strangers(|plugin| match plugin {
            "same" => Some(1),
            "other" => Some(2),
            _ => None,
        });
        assert_eq!(turn.inlets(), ["same"]);
        let kept = ["same", "other", "gone"].map(|plugin| turn.states().of(plugin).get("n").is_some());
        assert_eq!(kept, [true, false, false]);
        // The state of the new plugin is empty.
        keep("other");
        turn.forget_strangers(|_| Some(2));
        assert_eq!(turn.inlets(), ["other"], "the other one is another by now");
    }

    #[test]
    fn a_turn_over_its_storage_limit_loses_its_own_values_only() {
        let turns = PartedTurns::default();
        turns.keep(part("small"), &SplitTurn::default());
        let large = SplitTurn::default();
        large.metadata().set("text", "x".repeat(LARGEST_TURN + 1)).unwrap();
        turns.keep(part("large"), &large);
        assert!(turns.find(&part("large")).is_none());
        assert!(turns.find(&part("small")).is_some());
    }

    #[test]
    fn the_oldest_split_turns_are_dropped_at_the_limit() {
        let turns = PartedTurns::default();
        for number in 0..=MAX_TURNS {
            turns.keep(part(&number.to_string()), &SplitTurn::default());
        }
        assert!(turns.find(&part("0")).is_none());
        assert!(turns.find(&part("1")).is_some());

        let heavy = "x".repeat(LARGEST_TURN / 2);
        for number in 0..=ALL_TURNS / (LARGEST_TURN / 2) {
            let turn = SplitTurn::default();
            turn.metadata().set("text", heavy.as_str()).unwrap();
            turns.keep(part(&format!("heavy {number}")), &turn);
        }
        assert!(turns.find(&part("heavy 0")).is_none());
        assert!(turns.find(&part("heavy 100")).is_some());

        for number in 0..=2 * MAX_TURNS {
            let other = TurnPart { caller: "mallory".into(), ..part(&format!("other {number}")) };
            turns.keep(other, &SplitTurn::default());
        }
        assert!(turns.find(&part("heavy 100")).is_some(), "another caller cannot push it out");
    }
}
