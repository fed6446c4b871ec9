//! The few shapes that plots are made of.

use std::fmt::Write;

const FONT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";

/// A picture on white.
pub(super) struct Svg {
    width: f64,
    height: f64,
    shapes: String,
}

/// Where a text stands by its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: String::new() }
    }

    pub(super) fn bar(&mut self, [x, y]: [f64; 2], width: f64, height: f64, color: &str) {
        let _ = writeln!(self.shapes, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{color}"/>"#);
    }

    pub(super) fn line(&mut self, points: &[[f64; 2]], color: &str, width: f64) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.shapes, r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="{width}"/>"#, points.join(" "));
    }

    pub(super) fn dot(&mut self, [x, y]: [f64; 2], color: &str) {
        let _ = writeln!(self.shapes, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{color}"/>"#);
    }

    pub(super) fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(self.shapes, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, shapes } = self;
        let head = format!(r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {FONT}>"#);
        format!("{head}\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{shapes}</svg>\n")
    }
}
