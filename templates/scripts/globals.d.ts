// What TypeScript's own declarations lack, or declare more narrowly than these scripts need.
interface Window {
  tracekit: any;
}
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
interface EventTarget {
  closest?(selectors: string): any;
}
interface JSON {
  rawJSON?(text: string): unknown;
  isRawJSON?(value: unknown): boolean;
}
interface Uint8ArrayConstructor {
  fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}
declare var scheduler: { yield?(): Promise<void> } | undefined;
interface Node {
  contains(other: EventTarget | null): boolean;
}
