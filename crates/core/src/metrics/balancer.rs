//! The keys and deployments of a provider that share its requests, and the time for which a refused or failed one rests.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A key of a deployment of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancerTarget {
    /// The name for operators: that of the deployment, or the position of the key.
    pub name: String,
    /// The position of the deployment.
    pub deployment: usize,
    /// The share of requests, in proportion to the weights of the others.
    pub weight: f64,
}

/// The requests of a target so far, and its rest.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetReport {
    /// The name for operators.
    pub name: String,
    /// The number of requests.
    pub calls: u64,
    /// The time for which it still rests; `None` if it is ready.
    pub rest: Option<Duration>,
    /// The status with which the service announced the end of the rest.
    pub status: Option<u16>,
}

/// The keys and deployments of a provider by their position; can be used from any thread.
#[derive(Debug, Default)]
pub struct Balancer {
    targets: Vec<BalancerTarget>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    targets: Vec<TargetState>,
    /// The rest of each deployment that failed.
    deployments: Vec<Option<Rest>>,
}

#[derive(Debug, Clone, Default)]
struct TargetState {
    /// The requests that it is owed, as a sum of weights.
    owed: f64,
    calls: u64,
    /// The rest of a refused key.
    rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    /// The status with which the service announced the end.
    status: Option<u16>,
}

impl Balancer {
    /// Creates the state of these targets, none of which rests.
    pub fn new(targets: Vec<BalancerTarget>) -> Self {
        let deployments = targets.iter().map(|target| target.deployment + 1).max().unwrap_or(0);
        let states = vec![TargetState::default(); targets.len()];
        Self { targets, state: Mutex::new(State { targets: states, deployments: vec![None; deployments] }) }
    }

    /// Returns the rest of a target: its own or that of its deployment, whichever ends later.
    fn rest_of(&self, state: &State, place: usize, now: Instant) -> Option<Rest> {
        let both = [state.targets[place].rest, state.deployments[self.targets[place].deployment]];
        both.into_iter().flatten().filter(|rest| rest.until > now).max_by_key(|rest| rest.until)
    }

    /// Returns the target of a request that was sent to the `tried` ones: of those that do not rest, each in proportion
    /// to its weight. If all rest, a new request gets the one whose rest ends first, but none before an end that the
    /// service announced.
    pub fn next(&self, tried: &[usize]) -> Option<usize> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_ready = |place: &usize| !tried.contains(place) && self.rest_of(&state, *place, now).is_none();
        let ready: Vec<usize> = (0..self.targets.len()).filter(is_ready).collect();
        let unannounced = |place: usize| {
            let rest = self.rest_of(&state, place, now).filter(|rest| rest.status.is_none())?;
            Some((rest.until, place))
        };
        let last_resort = (0..self.targets.len()).filter(|_| tried.is_empty()).filter_map(unannounced).min();
        let mut total = 0.0;
        for place in &ready {
            state.targets[*place].owed += self.targets[*place].weight;
            total += self.targets[*place].weight;
        }
        // Of equal ones, the first is taken.
        let owed = |place: usize| state.targets[place].owed;
        let most = ready.into_iter().reduce(|one, other| if owed(other) > owed(one) { other } else { one });
        let next = most.or(last_resort.map(|(_, place)| place))?;
        let target = &mut state.targets[next];
        (target.owed, target.calls) = (target.owed - total, target.calls + 1);
        Some(next)
    }

    /// Returns the target of a request that does not count.
    pub fn any(&self) -> usize {
        let (now, state) = (Instant::now(), self.state.lock());
        (0..self.targets.len()).find(|place| self.rest_of(&state, *place, now).is_none()).unwrap_or(0)
    }

    /// Lets a target rest whose key was refused, with the status by which the service announced the end, if it did.
    pub fn rest(&self, target: usize, time: Duration, status: Option<u16>) {
        let until = Instant::now().checked_add(time);
        self.state.lock().targets[target].rest = until.map(|until| Rest { until, status });
    }

    /// Lets the deployment of a target rest because it failed.
    pub fn rest_deployment(&self, target: usize, time: Duration, status: Option<u16>) {
        let until = Instant::now().checked_add(time);
        let deployment = self.targets[target].deployment;
        self.state.lock().deployments[deployment] = until.map(|until| Rest { until, status });
    }

    /// Ends the rest of the deployment of a target, which answered.
    pub fn wake_deployment(&self, target: usize) {
        self.state.lock().deployments[self.targets[target].deployment] = None;
    }

    /// Returns the name of a target.
    pub fn name(&self, target: usize) -> &str {
        &self.targets[target].name
    }

    /// Returns the state of each target.
    pub fn reports(&self) -> Vec<TargetReport> {
        let (now, state) = (Instant::now(), self.state.lock());
        let report = |(place, target): (usize, &BalancerTarget)| {
            let rest = self.rest_of(&state, place, now);
            TargetReport {
                name: target.name.clone(),
                calls: state.targets[place].calls,
                rest: rest.map(|rest| rest.until.saturating_duration_since(now)),
                status: rest.and_then(|rest| rest.status),
            }
        };
        self.targets.iter().enumerate().map(report).collect()
    }

    /// Returns `true` if the targets have several deployments.
    pub fn has_deployments(&self) -> bool {
        self.targets.iter().any(|target| target.deployment > 0)
    }

    /// Returns `true` if the provider has one key and one deployment.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns a balancer of targets with these deployments and weights.
    fn balancer<const N: usize>(targets: [(usize, f64); N]) -> Balancer {
        let target = |(deployment, weight)| BalancerTarget { name: String::new(), deployment, weight };
        Balancer::new(targets.map(target).into())
    }

    fn turns<const N: usize>(balancer: &Balancer) -> [usize; N] {
        std::array::from_fn(|_| balancer.next(&[]).unwrap())
    }

    #[test]
    fn targets_take_turns_and_a_resting_one_is_passed_over() {
        let keys = balancer([(0, 1.0); 3]);
        assert_eq!(turns(&keys), [0, 1, 2, 0, 1, 2]);
        keys.rest(1, MINUTE, None);
        assert!(turns::<6>(&keys).iter().all(|key| *key != 1));
        keys.rest(0, MINUTE / 6, None);
        keys.rest(2, MINUTE / 2, None);
        assert_eq!(turns(&keys), [0; 6], "its rest ends first");
        keys.rest(2, Duration::ZERO, None);
        assert_eq!(turns(&keys), [2; 6]);
        assert_eq!((keys.any(), keys.next(&[2])), (2, None));
    }

    #[test]
    fn requests_are_spread_by_weight_without_runs() {
        let all = balancer([(0, 5.0), (1, 1.0), (2, 1.0)]);
        assert_eq!(turns(&all), [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
        let sizes = |turns: &[usize]| [0, 1, 2].map(|own| turns.iter().filter(|turn| **turn == own).count());
        assert_eq!(sizes(&turns::<70>(&all)), [50, 10, 10]);
        all.rest(0, MINUTE, None);
        assert_eq!(sizes(&turns::<70>(&all)), [0, 35, 35]);
        all.rest(0, Duration::ZERO, None);
        assert_eq!(sizes(&turns::<70>(&all)), [50, 10, 10], "nothing is made up for");
    }

    #[test]
    fn a_failed_deployment_rests_with_its_keys_until_it_answers() {
        let all = balancer([(0, 1.0), (0, 1.0), (1, 1.0)]);
        all.rest_deployment(0, MINUTE, None);
        assert_eq!(turns(&all), [2; 4]);
        assert_eq!(all.next(&[2]), None);
        all.rest_deployment(2, 2 * MINUTE, None);
        assert_eq!(turns(&all), [0; 4], "its rest ends first");
        all.rest(1, MINUTE, None);
        all.wake_deployment(0);
        assert_eq!(turns(&all), [0; 4], "the key of the other was refused");
    }

    #[test]
    fn an_announced_rest_is_waited_for() {
        let all = balancer([(0, 1.0), (1, 1.0)]);
        all.rest(0, MINUTE, Some(429));
        all.rest_deployment(1, MINUTE / 2, Some(503));
        assert_eq!(all.next(&[]), None);
        let reports = all.reports();
        assert_eq!(reports.iter().map(|report| report.status).collect::<Vec<_>>(), [Some(429), Some(503)]);
        assert!(reports[0].rest > reports[1].rest && reports[1].rest > Some(MINUTE / 3));
        all.rest(0, MINUTE, None);
        assert_eq!(all.next(&[]), Some(0));
    }
}
