//! The measuring: every side in turn, for each query.

use std::time::Duration;

use crate::session::{Cost, Session};
use crate::suites::{Case, Section};
use crate::{Result, median};

/// What one query cost on each side; nothing where it failed, or gave other rows than on the first.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) costs: Vec<Option<Cost>>,
}

/// Asks each query on all sides. What goes wrong is said in `failures`.
pub(crate) async fn section(section: &Section, sessions: &[Session], runs: usize, failures: &mut Vec<String>) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for case in &section.cases {
        let name = case.query.name.clone();
        let agree = agree(case, sessions, failures).await;
        let costs = costs(case, sessions, &agree, runs).await?;
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
async fn costs(case: &Case, sessions: &[Session], agree: &[bool], runs: usize) -> Result<Vec<Option<Cost>>> {
    let mut costs = vec![Vec::new(); sessions.len()];
    for _ in 0..runs {
        for ((session, costs), _) in sessions.iter().zip(&mut costs).zip(agree).filter(|(_, agrees)| **agrees) {
            costs.push(session.run(&case.query).await?);
        }
    }
    Ok(costs.iter().map(|costs| middle(costs)).collect())
}

/// The run of median time.
fn middle(costs: &[Cost]) -> Option<Cost> {
    let time: Duration = median(costs.iter().map(|cost| cost.time).collect())?;
    costs.iter().find(|cost| cost.time == time).copied()
}
