//! The measuring: every side in turn, for each query.

use crate::dataset::Tables;
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

/// The sides take turns, so that a machine that slows down slows all of them.
async fn costs(case: &Case, tables: &Tables, sessions: &[Session], agree: &[bool], runs: usize) -> Result<Vec<Option<Cost>>> {
    let mut times = vec![Vec::new(); sessions.len()];
    for _ in 0..runs {
        for ((session, times), _) in sessions.iter().zip(&mut times).zip(agree).filter(|(_, agrees)| **agrees) {
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
