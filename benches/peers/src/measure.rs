//! The measuring: every side in turn, for each query.

use crate::dataset::Tables;
use crate::random::{mix, shuffled};
use crate::session::{Cost, Session};
use crate::suites::{Case, Section};
use crate::{Result, median};

/// What one query cost on each side; nothing where it failed, or gave other rows than on the first.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) costs: Vec<Option<Cost>>,
}

/// Asks each query on all sides. What goes wrong is said in `failures`.
pub(crate) async fn section(
    section: &Section,
    tables: &Tables,
    sessions: &[Session],
    runs: usize,
    failures: &mut Vec<String>,
) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for case in &section.cases {
        let name = case.query.name.clone();
        let agree = agree(case, sessions, failures).await;
        let costs = costs(case, tables, sessions, &agree, runs).await?;
        let times: Vec<String> = costs.iter().map(|cost| cost.map_or("-".to_owned(), |cost| format!("{:.1?}", cost.time))).collect();
        eprintln!("{}: {name}: {}", section.title, times.join(", "));
        measured.push(Measured { name, costs });
    }
    Ok(measured)
}

/// Whether each side answers, and as the first one that does.
async fn agree(case: &Case, sessions: &[Session], failures: &mut Vec<String>) -> Vec<bool> {
    let mut first = None;
    let mut agree = Vec::new();
    for session in sessions {
        let found = match case.check.answer(session, &case.query).await {
            Ok(answer) => match &first {
                Some((side, first)) => answer.agree(first).map_err(|difference| format!("not as {side}: {difference}")),
                None => {
                    first = Some((session.side.name, answer));
                    Ok(())
                }
            },
            Err(error) => Err(error.to_string()),
        };
        agree.push(found.is_ok());
        failures.extend(found.err().map(|reason| format!("{}, {}: {reason}", case.query.name, session.side.name)));
    }
    agree
}

/// The sides take turns, so that a machine that slows down slows all of them. Who comes behind one that has gone through much memory finds the processor's caches without what it needs, so the
/// order is a random one in each run; nobody comes behind himself.
async fn costs(case: &Case, tables: &Tables, sessions: &[Session], agree: &[bool], runs: usize) -> Result<Vec<Option<Cost>>> {
    let mut times = vec![Vec::new(); sessions.len()];
    let sides: Vec<usize> = (0..sessions.len()).filter(|index| agree[*index]).collect();
    let mut order = Order::new(&case.query.name, sides.len());
    for _ in 0..runs {
        for side in order.next()? {
            let (session, times) = (&sessions[sides[side]], &mut times[sides[side]]);
            if case.is_first {
                times.extend(session.run_first(tables, &case.query).await?);
            } else {
                times.push(session.run(&case.query).await?);
            }
        }
    }
    let mut costs = Vec::new();
    for (session, times) in sessions.iter().zip(times) {
        costs.push(match median(times) {
            Some(time) if case.is_first => Some(Cost { time, read: session.first_traffic(tables, &case.query).await? }),
            Some(time) => Some(Cost { time, read: session.traffic(&case.query).await? }),
            None => None,
        });
    }
    Ok(costs)
}

/// In which order sides take turns.
struct Order {
    seed: u64,
    sides: usize,
    last: Option<usize>,
}

impl Order {
    /// Of so many sides, another one for each query.
    fn new(query: &str, sides: usize) -> Self {
        Self { seed: query.bytes().fold(0, |seed, byte| mix(seed ^ u64::from(byte))), sides, last: None }
    }

    fn next(&mut self) -> Result<Vec<usize>> {
        self.seed = mix(self.seed);
        let order = shuffled(self.sides as u64, self.seed).into_iter().map(usize::try_from);
        let mut order = order.collect::<std::result::Result<Vec<_>, _>>()?;
        if order.len() > 1 && order.first() == self.last.as_ref() {
            order.swap(0, 1);
        }
        self.last = order.last().copied();
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_come_behind_all_others_and_never_behind_themselves() -> Result<()> {
        let mut order = Order::new("Q7", 4);
        let mut followed = [[0; 4]; 4];
        let mut last = None;
        for _ in 0..400 {
            let sides = order.next()?;
            let mut sorted = sides.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            for side in sides {
                if let Some(last) = last.replace(side) {
                    followed[last][side] += 1;
                }
            }
        }
        for (side, followed) in followed.iter().enumerate() {
            for (other, times) in followed.iter().enumerate() {
                // A third of 400.
                assert!(if side == other { *times == 0 } else { (90..180).contains(times) }, "{side} before {other}: {times}");
            }
        }
        let mut alone = Order::new("Q7", 1);
        assert_eq!((alone.next()?, alone.next()?), (vec![0], vec![0]));
        assert!(Order::new("Q7", 0).next()?.is_empty());
        Ok(())
    }
}
