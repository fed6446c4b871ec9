//! Two plots: how much faster than over the first side, by section; and the time of filters by the share of rows that they leave.

mod svg;

use std::fs;
use std::path::Path;

use self::svg::{Anchor, Svg};
use crate::Result;
use crate::measure::Measured;
use crate::report::{Part, faster, geometric_mean, seconds};
use crate::side::{SIDES, Side};

/// In the order of [`SIDES`], so that a side has its color in every plot.
const COLORS: [&str; SIDES.len()] = ["#8d99ae", "#5c677d", "#e09f3e", "#6a994e", "#d68c8c", "#e6b8a2", "#9e2a2b"];
const AXIS: &str = "#cccccc";

/// Writes `suites.svg`, and `ladder.svg` if there is something to plot in it.
pub(crate) fn write(dir: &Path, sides: &[Side], parts: &[Part]) -> Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("suites.svg"), suites(sides, parts))?;
    let ladders: Vec<&Part> = parts.iter().filter(|part| part.suite == "ladder").collect();
    if !ladders.is_empty() {
        fs::write(dir.join("ladder.svg"), ladder(sides, &ladders))?;
    }
    Ok(())
}

fn color(side: &Side) -> &'static str {
    SIDES.iter().zip(COLORS).find(|(known, _)| known.name == side.name).map_or(AXIS, |(_, color)| color)
}

/// A bar for each side in each section: how many times as long the first side takes.
fn suites(sides: &[Side], parts: &[Part]) -> String {
    const LEFT: f64 = 180.0;
    const WIDTH: f64 = 520.0;
    const BAR: f64 = 14.0;
    let group = BAR * count(sides) + 14.0;
    let mut svg = Svg::new(LEFT + WIDTH + 60.0, 60.0 + group * count(parts));
    legend(&mut svg, sides);
    // To hand over what is in memory is no scan, and its bar would leave no room for others.
    let is_shown = |part: &Part, side: &Side| part.suite != "scan" || side.files.is_some();
    let of = |part: &Part, side: usize| faster(&part.measured, side, 0).filter(|_| is_shown(part, &sides[side])).unwrap_or_default();
    let most = parts.iter().flat_map(|part| (0..sides.len()).map(move |side| of(part, side))).fold(1.0, f64::max);
    let mut y = 40.0;
    for part in parts {
        svg.text([LEFT - 8.0, y + (group - 14.0) / 2.0 + 4.0], Anchor::End, &part.title);
        for (index, side) in sides.iter().enumerate() {
            if !is_shown(part, side) {
                continue;
            }
            let ratio = of(part, index);
            let width = WIDTH * ratio / most;
            svg.bar([LEFT, y], width, BAR - 2.0, color(side));
            svg.text([LEFT + width + 4.0, y + BAR - 4.0], Anchor::Start, &format!("{ratio:.2}"));
            y += BAR;
        }
        y += 14.0;
    }
    if let Some(first) = sides.first() {
        svg.text([LEFT, y + 8.0], Anchor::Start, &format!("times as fast as {}, geometric means; longer is better", first.name));
    }
    svg.finish()
}

/// A panel for each part, with a line for each side over the shares of rows.
fn ladder(sides: &[Side], parts: &[&Part]) -> String {
    const LEFT: f64 = 60.0;
    const PANEL: f64 = 440.0;
    let mut svg = Svg::new(LEFT + parts.iter().map(|_| PANEL + LEFT).sum::<f64>(), 400.0);
    legend(&mut svg, sides);
    let everything = parts.iter().flat_map(|part| (0..sides.len()).flat_map(move |side| by_share(&part.measured, side)));
    let (low, high) = everything.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), (_, value)| (low.min(value), high.max(value)));
    let mut left = LEFT;
    for part in parts {
        panel(&mut svg, sides, part, left, Scale { low, high });
        left += PANEL + LEFT;
    }
    svg.text([LEFT, 390.0], Anchor::Start, "rows that the filter leaves; milliseconds, geometric means over kinds of filters; lower is better");
    svg.finish()
}

fn panel(svg: &mut Svg, sides: &[Side], part: &Part, left: f64, scale: Scale) {
    const STEP: f64 = 46.0;
    svg.text([left, 50.0], Anchor::Start, &part.title);
    for tick in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0].into_iter().filter(|tick| scale.holds(*tick)) {
        let y = scale.y(tick);
        svg.line(&[[left, y], [left + 9.0 * STEP, y]], AXIS, 1.0);
        svg.text([left - 6.0, y + 4.0], Anchor::End, &tick.to_string());
    }
    for (index, side) in sides.iter().enumerate() {
        let values = by_share(&part.measured, index);
        let xs = (0..values.len()).scan(left, |x, _| Some(std::mem::replace(x, *x + STEP)));
        let points: Vec<[f64; 2]> = xs.zip(&values).map(|(x, (_, value))| [x, scale.y(*value)]).collect();
        svg.line(&points, color(side), 2.0);
        for (point, (share, _)) in points.iter().zip(&values) {
            svg.dot(*point, color(side));
            if index == 0 {
                svg.text([point[0], 368.0], Anchor::Middle, share);
            }
        }
    }
}

/// Times on a logarithmic axis, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn y(self, value: f64) -> f64 {
        let span = (self.high / self.low).ln().max(f64::EPSILON);
        350.0 - 280.0 * (value / self.low).ln() / span
    }

    fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The mean time in milliseconds of all filters that leave the same share of rows, which is what follows the comma in their names.
fn by_share(measured: &[Measured], side: usize) -> Vec<(String, f64)> {
    let share = |query: &Measured| query.name.rsplit_once(", ").map_or(String::new(), |(_, share)| share.to_owned());
    let mut shares: Vec<String> = Vec::new();
    for query in measured {
        if !shares.contains(&share(query)) {
            shares.push(share(query));
        }
    }
    let mean = |wanted: &String| geometric_mean(measured.iter().filter(|query| share(query) == *wanted).filter_map(|query| seconds(query, side)));
    shares.into_iter().filter_map(|share| mean(&share).map(|mean| (share, mean * 1e3))).collect()
}

fn legend(svg: &mut Svg, sides: &[Side]) {
    let mut x = 8.0;
    for side in sides {
        svg.bar([x, 12.0], 12.0, 12.0, color(side));
        svg.text([x + 16.0, 22.0], Anchor::Start, side.name);
        x += 148.0;
    }
}

fn count<T>(items: &[T]) -> f64 {
    items.iter().map(|_| 1.0).sum()
}
