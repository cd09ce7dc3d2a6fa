"""The HTML pages: of a report (`html`), and over many runs (`batch_page`)."""
