// Browsers start no worker for a page that was opened as a file. The search then runs in a hidden frame.
class IFrameWorker extends EventTarget {
  constructor(address) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    this.inside = frame.contentWindow
    this.inside.postMessage = data => this.answer(data)
    this.ready = new Promise(done => {
      const script = this.inside.document.createElement("script")
      script.src = address
      script.onload = done
      this.inside.document.body.append(script)
    })
  }

  answer(data) {
    const message = new MessageEvent("message", { data })
    this.dispatchEvent(message)
    if (this.onmessage) this.onmessage(message)
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
  }

  terminate() {
    this.inside.frameElement.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
